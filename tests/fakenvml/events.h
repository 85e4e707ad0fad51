/* Event sets, in which the XIDs of the settings arrive: each time that the control file is
 * read anew, once in every set that its device was registered for before. */
typedef struct { unsigned seen; int next; char registered[MAXDEV]; } set_t;

API ret_t nvmlEventSetCreate(set_t **s) { SYS(); NEED(s); *s = calloc(1, sizeof **s); (*s)->seen = settings_read; return OK; }
API ret_t nvmlEventSetFree(set_t *s) { SYS(); NEED(s); free(s); return OK; }
API ret_t nvmlDeviceRegisterEvents(void *h, u64 types, set_t *s) { DEV(h); NEED(s); if (types & 8) s->registered[g->index] = 1; return OK; }
API ret_t nvmlEventSetWait_v2(set_t *s, event_t *e, u32 ms) {
    SYS(); NEED(s && e);
    if (s->seen != settings_read) {
        while (s->next < nxids) {
            xid_t *x = &xids[s->next++];
            if (!s->registered[x->dev]) continue;
            *e = (event_t){ &gpus[x->dev], 8, x->code, NONE32, NONE32 };
            return OK;
        }
        s->seen = settings_read; s->next = 0;
    }
    pause_us(ms * 1e3);
    return TIMEOUT;
}
API ret_t nvmlEventSetWait(set_t *s, event_t *e, u32 ms) { return nvmlEventSetWait_v2(s, e, ms); }
