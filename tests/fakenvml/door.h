/* The door that every call goes through: counts it, checks its handle, plays the faults that are set. */
#include <sys/mman.h>

static int inited;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int lies;       /* the call in progress shall return garbage */

/* ---- counters: one text line per function in a mapped file, always current ----------- */
#define MAXFN 700
#define LINE 64
static const char *fnname[MAXFN];
static u64 fncount[MAXFN];
static int nfn;
static char *cmap;
static int cfd = -1;

static void open_counters(void) {
    const char *s = setting("COUNT"), *q = s ? strstr(s, "%p") : 0;
    char path[512];
    if (!s) return;
    if (q) snprintf(path, sizeof path, "%.*s%d%s", (int)(q - s), s, (int)getpid(), q + 2);
    else snprintf(path, sizeof path, "%s", s);
    cfd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (cfd < 0) return;
    cmap = mmap(0, MAXFN * LINE, PROT_READ | PROT_WRITE, MAP_SHARED, cfd, 0);
    if (cmap == MAP_FAILED) cmap = 0;
}

static void put_count(int id) {
    char *p = cmap + (size_t)id * LINE + LINE - 14, b[13];
    u64 v = __atomic_load_n(&fncount[id], __ATOMIC_RELAXED);
    for (int i = 11; i >= 0; i--) { b[i] = v || i == 11 ? (char)('0' + v % 10) : ' '; v /= 10; }
    memcpy(p, b, 12);
}

static int register_fn(const char *name) {
    pthread_mutex_lock(&names_lock);
    int id = -1;
    for (int i = 0; i < nfn; i++) if (!strcmp(fnname[i], name)) id = i;
    if (id < 0 && nfn < MAXFN) {
        id = nfn++;
        fnname[id] = name;
        if (cmap && ftruncate(cfd, (off_t)nfn * LINE) == 0) {
            char *p = cmap + (size_t)id * LINE;
            memset(p, ' ', LINE); p[LINE - 1] = '\n';
            size_t l = strlen(name); memcpy(p, name, l > 48 ? 48 : l);
        }
    }
    pthread_mutex_unlock(&names_lock);
    return id;
}

static void count(int *id, const char *name) {
    if (*id < 0) *id = register_fn(name);
    if (*id < 0) return;
    __atomic_add_fetch(&fncount[*id], 1, __ATOMIC_RELAXED);
    if (cmap) put_count(*id);
}

/* One value of nvmlDeviceGetFieldValues, some of which cost more than all other calls. */
static void count_value(u32 id) {
    static char names[300][20];
    static int slots[300];      /* and one: 0 is not yet known */
    if (!cmap || id >= 300) return;
    if (!slots[id]) snprintf(names[id], sizeof names[id], "FieldValue:%u", id);
    int slot = slots[id] - 1;
    count(&slot, names[id]);
    slots[id] = slot + 1;
}

static void configure(void) {
    control.path = getenv("FAKENVML_CONTROL");
    read_control();
    read_settings();
    open_counters();
}

/* ---- delays -------------------------------------------------------------------------- */
static double seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void pause_us(double us) {
    if (us <= 0) return;
    if (C.spin) {
        double end = seconds(CLOCK_MONOTONIC) + us / 1e6;
        while (seconds(CLOCK_MONOTONIC) < end) ;
        return;
    }
    struct timespec t = { (time_t)(us / 1e6), 0 };
    t.tv_nsec = (long)((us - (double)t.tv_sec * 1e6) * 1e3);
    while (nanosleep(&t, &t) < 0 && errno == EINTR) ;
}

/* A hang lasts its time, or until the control file changes. */
static void hang(double s) {
    if (!control.path) { pause_us(s * 1e6); return; }
    for (double end = seconds(CLOCK_MONOTONIC) + s; seconds(CLOCK_MONOTONIC) < end && !control_changed(); )
        pause_us(20e3);
}

/* ---- the door that every call goes through -------------------------------------------- */
enum { SYSTEM, WHOLE, ANY_DEVICE, BEFORE_INIT };

static gpu_t *valid(void *h) {
    gpu_t *g = h;
    if ((g >= gpus && g < gpus + C.devices) || (C.mig && g >= migs && g < migs + MAXMIG))
        return g->magic == MAGIC ? g : 0;
    return 0;
}

/* Whether a setting names the function: itself, or it without its version suffix. */
static int names(const char *fn, const char *name) {
    size_t n = strlen(fn);
    if (strncmp(fn, name, n)) return 0;
    return !name[n] || (name[n] == '_' && name[n + 1] == 'v' && name[n + 2] && !name[n + 3]);
}

/* The answer that a call on a GPU is set to give, or NULL. */
static const answer_t *answer_of(const gpu_t *g, const char *name) {
    for (int i = 0; i < nanswers; i++)
        if (g->mig < 0 && (answers[i].dev < 0 || answers[i].dev == g->index) && names(answers[i].fn, name)) return &answers[i];
    return 0;
}

static u64 said(const gpu_t *g, const char *name, u32 i, u64 otherwise) {
    const answer_t *a = answer_of(g, name);
    return a && i < (u32)a->count && a->kind[i] == NUMBER ? a->n[i] : otherwise;
}

/* Applies the faults that are set for a call: a return value, or seconds to hang. */
static ret_t faults(const char *name, gpu_t *g, double *hangs) {
    for (int i = 0; i < nrules; i++) {
        rule_t *r = &rules[i];
        if (r->fn[0] == '*' ? !g : !names(r->fn, name)) continue;
        if (r->dev >= 0 && (!g || g->index != r->dev)) continue;
        if (__atomic_add_fetch(&r->seen, 1, __ATOMIC_RELAXED) <= r->after) continue;
        if (r->fault == FAIL) return (ret_t)r->arg;
        if (r->fault == EXIT) exit((int)r->arg);
        if (r->fault == PRINT) { printf("noise from %s\n", name); fflush(stdout); }
        else if (r->fault == HANG) *hangs = r->arg;
        else lies = 1;
    }
    return OK;
}

/* Everything common to a call: count, state, handle, faults, latency. */
static ret_t enter(int *fid, const char *name, void *h, int mode, gpu_t **out) {
    pthread_once(&once, configure);
    refresh_settings();
    count(fid, name);
    lies = 0;
    if (mode != BEFORE_INIT && !inited) return UNINITIALIZED;
    gpu_t *g = 0;
    double hangs = 0;
    pthread_rwlock_rdlock(&settings_lock);
    ret_t result = OK;
    if (mode == WHOLE || mode == ANY_DEVICE) {
        g = valid(h);
        if (!g) result = INVALID;
    }
    if (C.trace) fprintf(stderr, "fakenvml %s(%d%s)\n", name, g ? g->index : -1, g && g->mig >= 0 ? " mig" : "");
    if (g) {
        *out = g;
        gpu_t *p = g->parent ? g->parent : g;
        u64 n = __atomic_add_fetch(&p->ncalls, 1, __ATOMIC_RELAXED);
        if (gone[p->index] || (p->lostAfter >= 0 && n > (u64)p->lostAfter)) result = LOST;
    }
    if (!result) result = faults(name, g, &hangs);
    pthread_rwlock_unlock(&settings_lock);
    if (hangs > 0) hang(hangs);
    if (g && C.latency_us) pause_us((double)C.latency_us);
    if (!result && g && g->mig >= 0 && mode == WHOLE) return UNSUPPORTED;
    return result;
}

#define ENTER(mode, h) static int fid_ = -1; gpu_t *g = 0; \
    { ret_t r_ = enter(&fid_, __func__, (void *)(h), mode, &g); if (r_) return r_; } (void)g
#define SYS()   ENTER(SYSTEM, 0)
#define DEV(h)  ENTER(WHOLE, h)
#define ANY(h)  ENTER(ANY_DEVICE, h)
#define NEED(p) do { if (!(p)) return INVALID; } while (0)
#define ONLY(cond) do { if (!(cond)) return UNSUPPORTED; } while (0)
#define LIE(garbage, truth) (lies ? (garbage) : (truth))
/* Number i of the answer that is set for this call, else the truth; whether one is set at all. */
#define SAY(i, truth) said(g, __func__, (u32)(i), truth)
#define SAYS (answer_of(g, __func__) != 0)
