/* GPU performance monitoring: averages of the load between two samples that the caller keeps. */
typedef struct { u32 version, supported; } gpmsupport_t;
typedef struct { u32 id; ret_t ret; double value; char *shortName, *longName, *unit; } gpmmetric_t;
typedef struct { gpu_t *gpu; u32 instance; double taken, busy; } gpmsample_t;
typedef struct { u32 version, n; gpmsample_t *before, *after; gpmmetric_t metrics[]; } gpmget_t;

/* Seconds of full load since an epoch: a smooth integral, so that averages follow the wave. */
static double busy_seconds(gpu_t *g) {
    double t = now() - 1.7e9, w = 6.283185307 / 23, ph = g->index * 0.9;
    if (C.load != WAVE) return C.load == BUSY ? t : 0;
    return t * 0.5 - 0.5 / w * (wsin(now() * w + ph + 1.570796) - 1);
}
static ret_t gpm_sample(gpu_t *g, u32 instance, gpmsample_t *s) {
    NEED(s); ONLY(C.gpm);
    *s = (gpmsample_t){ g, instance, now(), busy_seconds(g) };
    return OK;
}
API ret_t nvmlGpmQueryDeviceSupport(void *h, gpmsupport_t *s) {
    DEV(h); NEED(s); if (s->version != 1) return BAD_VERSION;
    s->supported = C.gpm != 0; return OK;
}
API ret_t nvmlGpmQueryIfStreamingEnabled(void *h, u32 *v) { DEV(h); NEED(v); ONLY(C.gpm); *v = 1; return OK; }
API ret_t nvmlGpmSampleAlloc(gpmsample_t **s) { SYS(); NEED(s); *s = calloc(1, sizeof **s); return OK; }
API ret_t nvmlGpmSampleFree(gpmsample_t *s) { SYS(); NEED(s); free(s); return OK; }
API ret_t nvmlGpmSampleGet(void *h, gpmsample_t *s) { DEV(h); return gpm_sample(g, 0, s); }
API ret_t nvmlGpmMigSampleGet(void *h, u32 instance, gpmsample_t *s) {
    DEV(h);
    if (!C.mig || g->index || instance < 1 || instance > MAXMIG) return INVALID;
    return gpm_sample(g, instance, s);
}
API ret_t nvmlGpmMetricsGet(gpmget_t *m) {
    SYS(); NEED(m && m->before && m->after); if (m->version != 1) return BAD_VERSION;
    gpmsample_t *a = m->before, *b = m->after;
    if (!a->gpu || a->gpu != b->gpu || a->instance != b->instance || b->taken <= a->taken) return INVALID;
    double load = (b->busy - a->busy) / (b->taken - a->taken) * (b->instance ? 1.0 / b->instance : 1.0);
    for (u32 i = 0; i < m->n; i++) {
        gpmmetric_t *x = &m->metrics[i];
        x->ret = OK;
        switch (x->id) {
        case 1: x->value = 95 * load; break;
        case 2: x->value = (C.gpm > 1 ? 1 : 90) * load; break;
        case 3: x->value = 40 * load; break;
        case 5: x->value = 50 * load; break;
        case 10: x->value = 60 * load; break;
        case 12: x->value = 15 * load; break;
        case 13: x->value = 35 * load; break;
        case 20: case 21: x->value = 9000 * load; break;
        case 60: case 61: x->value = 0; x->ret = C.topo == NOLINK ? UNSUPPORTED : OK; break;
        default: x->ret = UNSUPPORTED;
        }
        if (lies) x->value = 1e30;
    }
    return OK;
}
