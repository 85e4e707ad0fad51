/*
 * What nvidia-smi needs beyond the public interface: a table of entry points without names, which
 * it asks for by an identifier. Only the slots that its 535 releases were seen to use do anything.
 */
#define SLOT_ANCESTOR 23
#define SLOT_FEATURE 72
#define SLOT_HANDLE 81
#define SLOT_COMPUTE 213
#define SLOT_MPS 214
#define SLOT_GRAPHICS 215
#define SLOT_HOST_GENERATION 230
#define SLOT_GPU_NUMA_NODE 241
typedef struct { u32 pid, pad; u64 mem; u32 gi, ci; u64 cc; char name[4096]; } smi_process_t;

static int is_pointer(void *p) { return (uintptr_t)p > 0x10000 && !((uintptr_t)p >> 47); }

/* The processes of one kind with their names: of a GPU in MIG mode those of all its instances. */
static ret_t smi_processes(int slot, gpu_t *g, u32 *n, smi_process_t *p) {
    u32 capacity = *n, k = 0;
    int split = C.mig && g->index == 0;
    int from = slot == SLOT_GRAPHICS ? C.procs : 0;
    int to = slot == SLOT_COMPUTE ? C.procs : slot == SLOT_GRAPHICS ? C.procs + C.gprocs : 0;
    for (int i = from; i < to && k < capacity; i++) {
        if (g->mig >= 0 && (i % MAXMIG != g->mig || i >= C.procs)) continue;
        p[k].pid = proc_pid(g, i); p[k].mem = proc_mem(g, i);
        p[k].gi = split ? (u32)(i % MAXMIG) + 1 : NONE32;
        p[k].ci = split ? 0 : NONE32; p[k].cc = 0;
        if (nvmlSystemGetProcessName(p[k].pid, p[k].name, sizeof p[k].name))
            snprintf(p[k].name, sizeof p[k].name, "[Not Found]");
        k++;
    }
    *n = k; return OK;
}

/* Two bus ids in, a topology level out: PIX PXB PHB NODE SYS. */
static ret_t smi_ancestor(const char *one, const char *other, u32 *out) {
    void *x, *y;
    if (nvmlDeviceGetHandleByPciBusId_v2(one, &x) || nvmlDeviceGetHandleByPciBusId_v2(other, &y)) return NOT_FOUND;
    u32 reach = level(((gpu_t *)x)->index, ((gpu_t *)y)->index);
    *out = reach <= 10 ? 0 : reach / 10 - 1; return OK;
}

static ret_t smi_call(int slot, void *a0, void *a1, void *a2) {
    static int fid = -1;
    count(&fid, "(nvidia-smi's own table)");
    if (slot == SLOT_HANDLE && (uintptr_t)a0 < MAXDEV && is_pointer(a1) && (uintptr_t)a2 < 4096)
        return nvmlDeviceGetHandleByIndex_v2((u32)(uintptr_t)a0, a1);
    if (slot == SLOT_ANCESTOR && is_pointer(a0) && is_pointer(a1) && is_pointer(a2)) return smi_ancestor(a0, a1, a2);
    gpu_t *g = valid(a0);
    if (!g || !is_pointer(a1)) return OK;
    if (slot >= SLOT_COMPUTE && slot <= SLOT_GRAPHICS && is_pointer(a2)) return smi_processes(slot, g, a1, a2);
    if (slot == SLOT_GPU_NUMA_NODE && !C.grace) return UNSUPPORTED;
    if (!C.table) return UNSUPPORTED;
    *(u32 *)a1 = slot == SLOT_HOST_GENERATION ? GEN : slot == SLOT_FEATURE;
    return OK;
}

#define S1(h, l) static ret_t smi_##h##l(void *a, void *b, void *c) { return smi_call(0x##h##l, a, b, c); }
#define A1(h, l) (void *)smi_##h##l,
#define R16(M, h) M(h, 0) M(h, 1) M(h, 2) M(h, 3) M(h, 4) M(h, 5) M(h, 6) M(h, 7) M(h, 8) M(h, 9) M(h, a) M(h, b) M(h, c) M(h, d) M(h, e) M(h, f)
#define R256(M) R16(M, 0) R16(M, 1) R16(M, 2) R16(M, 3) R16(M, 4) R16(M, 5) R16(M, 6) R16(M, 7) R16(M, 8) R16(M, 9) R16(M, a) R16(M, b) R16(M, c) R16(M, d) R16(M, e) R16(M, f)
R256(S1)
static void *smi_slots[256] = { R256(A1) };
API ret_t nvmlInternalGetExportTable(void **out, const unsigned char *identifier) {
    static const unsigned char known[4] = { 0xc4, 0xfe, 0x3e, 0x6c };
    pthread_once(&once, configure);
    NEED(out);
    if (identifier && memcmp(identifier, known, sizeof known)) return UNSUPPORTED;
    smi_slots[0] = (void *)0x1000;      /* the size of the table comes first */
    *out = smi_slots; return OK;
}
