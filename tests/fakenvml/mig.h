/* GPU 0 in MIG mode: profiles of an A100-SXM4-80GB, and its instances, each with one compute instance. */
typedef struct { u32 version, id, p2p, slices, total, sm, ce, dec, enc, jpeg, ofa; u64 mib; char name[96]; } gi_profile_t;
typedef struct { u32 version, id, slices, total, sm, ce, dec, enc, jpeg, ofa; u64 mib; char name[96]; u32 can; } gi_profile3_t;
typedef struct { u32 version, id, slices, total, sm, ce, dec, enc, jpeg, ofa; char name[96]; } ci_profile_t;
typedef struct { u32 start, size; } placement_t;
typedef struct { void *device; u32 id, profile; placement_t at; } gi_info_t;
typedef struct { void *device, *gi; u32 id, profile; placement_t at; } ci_info_t;

typedef struct { u32 number, id, slices, total, free, sm, ce, dec, jpeg, ofa, size; u64 mib; const char *name; int starts[8]; } gi_kind_t;
/* In the order of NVML_GPU_INSTANCE_PROFILE_*; what is free beside instances of 3, 2 and 1 slices. */
static const gi_kind_t gi_kinds[] = {
    { 0, 19, 1, 7, 1, 14, 1, 0, 0, 0, 1, 9728, "MIG 1g.10gb", { 0, 1, 2, 3, 4, 5, 6, -1 } },
    { 1, 14, 2, 3, 0, 28, 2, 1, 0, 0, 2, 19968, "MIG 2g.20gb", { 0, 2, 4, -1 } },
    { 2, 9, 3, 2, 0, 42, 3, 2, 0, 0, 4, 40192, "MIG 3g.40gb", { 0, 4, -1 } },
    { 3, 5, 4, 1, 0, 56, 4, 2, 0, 0, 4, 40192, "MIG 4g.40gb", { 0, -1 } },
    { 4, 0, 7, 1, 0, 98, 7, 5, 1, 1, 8, 80640, "MIG 7g.80gb", { 0, -1 } },
    { 7, 20, 1, 1, 1, 14, 1, 1, 1, 1, 1, 9728, "MIG 1g.10gb+me", { 0, 1, 2, 3, 4, 5, 6, -1 } },
    { 9, 15, 1, 4, 0, 14, 1, 1, 0, 0, 2, 19968, "MIG 1g.20gb", { 0, 2, 4, 6, -1 } },
};
#define GI_KINDS (sizeof gi_kinds / sizeof *gi_kinds)
static const u32 mig_profile[MAXMIG] = { 9, 14, 19 }, mig_start[MAXMIG] = { 4, 2, 0 };

static const gi_kind_t *gi_kind(u32 id, int by_number) {
    for (u32 i = 0; i < GI_KINDS; i++) if ((by_number ? gi_kinds[i].number : gi_kinds[i].id) == id) return &gi_kinds[i];
    return 0;
}
static ret_t gi_profile(gpu_t *g, u32 number, u32 *p) {
    const gi_kind_t *k = gi_kind(number, 1);
    ONLY(C.mig && g->index == 0 && k);
    if (*p == 0x02000098) {
        gi_profile_t *v = (gi_profile_t *)p;
        *v = (gi_profile_t){ *p, k->id, 0, k->slices, k->total, k->sm, k->ce, k->dec, 0, k->jpeg, k->ofa, k->mib, "" };
        strcpy(v->name, k->name); return OK;
    }
    if (*p != 0x03000098) return BAD_VERSION;
    gi_profile3_t *v = (gi_profile3_t *)p;
    *v = (gi_profile3_t){ *p, k->id, k->slices, k->total, k->sm, k->ce, k->dec, 0, k->jpeg, k->ofa, k->mib, "", 0 };
    strcpy(v->name, k->name); return OK;
}
API ret_t nvmlDeviceGetGpuInstanceProfileInfoV(void *h, u32 number, void *p) { DEV(h); NEED(p); return gi_profile(g, number, p); }
API ret_t nvmlDeviceGetGpuInstanceRemainingCapacity(void *h, u32 id, u32 *n) {
    DEV(h); NEED(n); const gi_kind_t *k = gi_kind(id, 0); ONLY(C.mig && g->index == 0 && k); *n = k->free; return OK;
}
API ret_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(void *h, u32 id, placement_t *p, u32 *n) {
    DEV(h); NEED(n); const gi_kind_t *k = gi_kind(id, 0); ONLY(C.mig && g->index == 0 && k);
    u32 count = 0;
    for (; k->starts[count] >= 0; count++) if (p && count < *n) p[count] = (placement_t){ (u32)k->starts[count], k->size };
    *n = count; return OK;
}
API ret_t nvmlDeviceGetGpuInstances(void *h, u32 id, void **list, u32 *n) {
    DEV(h); NEED(n); ONLY(C.mig && g->index == 0); *n = 0;
    for (int i = 0; i < MAXMIG; i++) if (mig_profile[i] == id) list[(*n)++] = &migs[i];
    return OK;
}
API ret_t nvmlDeviceGetGpuInstanceById(void *h, u32 id, void **o) { DEV(h); NEED(o); if (!C.mig || g->index || !id || id > MAXMIG) return NOT_FOUND; *o = &migs[id - 1]; return OK; }
API ret_t nvmlGpuInstanceGetInfo(void *h, gi_info_t *o) {
    ANY(h); NEED(o); if (g->mig < 0) return INVALID; u32 id = mig_profile[g->mig];
    *o = (gi_info_t){ g->parent, g->gi, id, { mig_start[g->mig], gi_kind(id, 0)->size } }; return OK;
}

/* Of compute instances, those of 1, 2 and 3 slices as far as they fit, with the ids 0, 1 and 2. */
static u32 ci_slices(gpu_t *g) { return gi_kind(mig_profile[g->mig], 0)->slices; }
API ret_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(void *h, u32 number, u32 engine, ci_profile_t *p) {
    ANY(h); NEED(p); if (g->mig < 0) return INVALID; u32 slices = number + 1, all = ci_slices(g);
    ONLY(!engine && number < 3 && slices <= all);
    if (p->version != 0x02000088 && p->version != 0x0300008C) return BAD_VERSION;
    const gi_kind_t *k = gi_kind(mig_profile[g->mig], 0);
    *p = (ci_profile_t){ p->version, number, slices, all / slices, 14 * slices, k->ce, k->dec, 0, k->jpeg, k->ofa, "" };
    if (slices == all) strcpy(p->name, k->name);
    else snprintf(p->name, sizeof p->name, "MIG %uc.%s", slices, k->name + 4);
    return OK;
}
API ret_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(void *h, u32 id, u32 *n) { ANY(h); NEED(n); if (g->mig < 0) return INVALID; ONLY(id < ci_slices(g)); *n = 0; return OK; }
API ret_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(void *h, u32 id, placement_t *p, u32 *n) {
    ANY(h); NEED(n); if (g->mig < 0) return INVALID; u32 size = id + 1, all = ci_slices(g), count = 0; ONLY(size <= all);
    for (u32 start = 0; start + size <= all; start += size, count++) if (p && count < *n) p[count] = (placement_t){ start, size };
    *n = count; return OK;
}
API ret_t nvmlGpuInstanceGetComputeInstances(void *h, u32 id, void **list, u32 *n) { ANY(h); NEED(n); if (g->mig < 0) return INVALID; *n = 0; if (id + 1 == ci_slices(g)) list[(*n)++] = g; return OK; }
API ret_t nvmlGpuInstanceGetComputeInstanceById(void *h, u32 id, void **o) { ANY(h); NEED(o); if (g->mig < 0) return INVALID; if (id) return NOT_FOUND; *o = g; return OK; }
API ret_t nvmlComputeInstanceGetInfo_v2(void *h, ci_info_t *o) {
    ANY(h); NEED(o); if (g->mig < 0) return INVALID; u32 slices = ci_slices(g);
    *o = (ci_info_t){ g->parent, g, 0, slices - 1, { 0, slices } }; return OK;
}
