/*
 * fakenvml - a stand-in for libnvidia-ml.so.1 that real clients load, for tests and benchmarks.
 *
 * Build:  cc -shared -fPIC -O2 -o libnvidia-ml.so.1 fakenvml.c
 * Use:    LD_LIBRARY_PATH=$PWD FAKENVML_DEVICES=8 gpudash --once
 *
 * Written against the public NVML interface (the functions and structures that nvidia-ml-py
 * binds). It starts at once and starts no threads, so that what a client costs on it is the
 * client's own cost.
 *
 * Settings, all optional, in the environment as FAKENVML_KEY or in the control file as KEY:
 *   DEVICES=8             number of GPUs, 0..128
 *   MODEL=sxm             sxm     A100-SXM4-80GB: ECC, NVLink, no fan
 *                         pcie    L40S: ECC, no NVLink, no fan
 *                         geforce RTX 4090: fan, display, no ECC, no NVLink, several calls
 *                                 NOT_SUPPORTED
 *   DRIVER=550.163.01     driver version string
 *   TOPO=islands          islands  NVLink all-to-all inside each group of 4
 *                         nvswitch every GPU linked through NVSwitches
 *                         pcie     no NVLink
 *   TIME=SECONDS          freeze the clock that the values are made from
 *   LOAD=wave             wave | idle | busy | first: GPU 0 alone is busy
 *   PROCS_PER_DEVICE=N    compute processes on each GPU
 *   GRAPHICS_PER_DEVICE=N graphics processes on each GPU
 *   PIDS=1,2,3 | @FILE    pids to hand out, in turn over (device, slot)
 *   MIG=1                 GPU 0 in MIG mode with 3 instances (sxm only)
 *   LATENCY_US=N          every call that takes a device sleeps N microseconds
 *   SPIN=1                ... and burns the CPU in place of sleeping
 *   INIT_MS=N             nvmlInit sleeps N ms (a cold driver: hundreds)
 *   HOLD=PATH             a file that is open between nvmlInit and nvmlShutdown, as /dev/nvidia* is
 *   INIT_ERR=CODE         nvmlInit fails: 4 no permission, 9 driver not loaded, 18 mismatch
 *   PCIE_MS=N             nvmlDeviceGetPcieThroughput sleeps N ms
 *   HANG=fn:dev:secs[:after_n],...   that call on that device (or *) blocks; secs may be inf
 *   FAIL=fn:dev:code[:after_n],...   that call on that device (or *) fails; fn may be *;
 *                         15 GPU is lost, 16 reset required, 13 symbol missing; the handle
 *                         lookups count as calls on the device they find
 *   GARBAGE=fn:dev[:_:after_n],...   that call succeeds and returns nonsense: 37100 %,
 *                         0xffffffff, a process at 2147483632 %, names that are no UTF-8
 *   EXIT=fn:dev:status    that call ends the process by exit()
 *   PRINT=fn:dev          that call prints a line to stdout
 *   LOST=dev[:after_n],...  after n calls on it, every call on dev says GPU_IS_LOST
 *   REMOVED=dev,...       unplugged: its handles are lost at once, and as in the driver the next
 *                         nvmlInit numbers the GPUs without it; one that returns needs an init too
 *   NAME=TEXT             another product name, such as NVIDIA GB10
 *   GPM=1                 performance monitoring, as Hopper has it; with 2 kernels use 1 % of the SMs
 *   RISE=dev:field[.link]:n,...  that field value counts n a second: 74 or 271 nanoseconds of
 *                         throttling, 161 to 163 errors of a link; 94 PCIe replays. Ids are those
 *                         since 580.82, whatever the DRIVER
 *   ANSWER=fn:dev:n/n/...,...   the numbers that a call answers on dev (or *) in its own order,
 *                         by index where one of its arguments is one; _ leaves one as it is.
 *                         fieldN is a field value, - for one that is not supported. Of: RemappedRows,
 *                         EccMode, MigMode, PersistenceMode, RetiredPagesPendingStatus, UtilizationRates,
 *                         CurrPcieLinkWidth, CurrentClocksEventReasons, EnforcedPowerLimit, ClockInfo by
 *                         type, TotalEccErrors by error type and twice the counter, MemoryInfo_v2
 *                         (total, reserved, free, used in MiB), SramEccErrorStatus (threshold exceeded),
 *                         C2cModeInfoV, AddressingMode
 *   LINK_DOWN=dev:link,...   that NVLink is not up
 *   FABRIC=state[:status[:health[:summary]]]  what nvmlDeviceGetGpuFabricInfoV tells; none without it
 *   WORN=1                retired pages, memory errors and accounted processes; 2 has the lists of
 *                         pages and processes, empty; without it accounting is off, and pages are
 *                         remapped and not retired
 *   GRACE=1               what boards with a Grace CPU report: power of the module, encrypted DRAM,
 *                         position in a rack, EGM, PDI, repairs; 2 is a server without a rack
 *   OLD=1                 a board of the Volta generation: errors by kind of memory, a bridge chip, clocks
 *                         that boost by themselves, a target temperature, a flushed InfoROM
 *   TABLE=0               of what nvidia-smi reads beyond NVML only processes, and no margin of temperature,
 *                         by which it chooses how it names the thresholds
 *   ORPHANED=dev:MiB,...  memory in use that no process owns
 *   XID=dev:code,...      errors that are reported whenever the control file is read anew
 *   COUNT=PATH            live table of calls per function, and of field values per id
 *                         (mapped file; %p = pid)
 *   TRACE=1               every call on stderr
 * fn may leave out its version suffix (nvmlDeviceGetComputeRunningProcesses means _v3 too).
 *
 * FAKENVML_CONTROL=PATH names the control file: lines KEY=VALUE that go before the environment.
 * It is read again whenever it changes, so that a GPU can fall off the bus and come back while a
 * client runs; counts start anew then, and calls that hang return. Replace it by rename.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include "nvml_types.h"
#include "settings.h"
#include "door.h"

#define NLINK 12

static const char *const MODELNAME[] = { "NVIDIA A100-SXM4-80GB", "NVIDIA L40S", "NVIDIA GeForce RTX 4090" };
static const u32 MODELPOWER[] = { 400000, 350000, 450000 };
static const u32 MODELGFX[] = { 1410, 2520, 3105 };
static const u32 MODELMEMCLK[] = { 1593, 9001, 10501 };

static ret_t str(char *out, u32 len, const char *fmt, ...) {
    char b[256]; va_list ap;
    va_start(ap, fmt); int n = vsnprintf(b, sizeof b, fmt, ap); va_end(ap);
    if (!out) return INVALID;
    if ((u32)n >= len) return SMALL;
    memcpy(out, b, (size_t)n + 1);
    return OK;
}
static const char UNTEXT[] = "\xff\xfe\x1b[31mGPU\n";   /* no UTF-8, and hostile to a terminal */

/* ---- the values ------------------------------------------------------------------- */
static double wsin(double x) {          /* sin, without linking libm: good to 1e-4 */
    const double P = 3.14159265358979;
    x = x / (2 * P); x -= (double)(long long)x; if (x < 0) x += 1;     /* turns, 0..1 */
    double y = x < 0.5 ? x : x - 0.5, t = y * 2 * P, a = t * (P - t), r = 16 * a / (5 * P * P - 4 * a);
    return x < 0.5 ? r : -r;
}
static double now(void) {
    if (C.frozen >= 0) return C.frozen;
    return seconds(CLOCK_REALTIME);
}
static u64 now_us(void) { return (u64)(now() * 1e6); }
static u32 hash(u32 a, u32 b) { a ^= b * 0x9e3779b9u; a ^= a >> 16; a *= 0x7feb352du; a ^= a >> 15; a *= 0x846ca68bu; return a ^ a >> 16; }
static double wave(int dev, double period, double phase) { return 0.5 + 0.5 * wsin(now() * 6.283185307 / period + dev * 0.9 + phase); }
static u32 util(gpu_t *g) {             /* new every 1/6 s, as the driver's sampling is */
    if (C.load == IDLE) return 0;
    if (C.load == BUSY) return 100;
    if (C.load == FIRST) return g->index ? 0 : 90;
    int n = (int)(hash((u32)g->index, (u32)(u64)(now() * 6)) % 7) - 3;
    int v = (int)(2 + 96 * wave(g->index, 23, 0)) + n;
    return (u32)(v < 0 ? 0 : v > 100 ? 100 : v);
}
static u32 memutil(gpu_t *g) { return util(g) * 6 / 10; }
static u32 power_mw(gpu_t *g) {         /* new every 100 ms */
    u32 lim = MODELPOWER[C.model], n = C.load == IDLE ? 0 : hash((u32)g->index + 77, (u32)(u64)(now() * 10)) % 9000;
    return 55000 + (lim - 75000) / 100 * util(g) + n;
}
static u32 temp_c(gpu_t *g) { return C.load == IDLE ? 31 : C.load == BUSY ? 74 : C.load == FIRST ? 50 : (u32)(36 + 38 * wave(g->index, 61, 0.5)); }
static u32 clock_mhz(u32 type, gpu_t *g) {
    u32 m = MODELGFX[C.model];
    if (type == 2) return MODELMEMCLK[C.model];
    u32 c = C.load == IDLE ? 210 : 210 + (m - 210) * (util(g) > 15 ? 85 + hash((u32)g->index, (u32)(u64)now()) % 16 : 10) / 100;
    return type == 3 ? c * 9 / 10 : c;
}
static u32 nproc(gpu_t *g) { return g->mig >= 0 ? (u32)(C.procs > g->mig ? (C.procs - g->mig + MAXMIG - 1) / MAXMIG : 0) : (u32)C.procs; }
static u32 proc_pid(gpu_t *g, int slot) {
    u32 k = (u32)(g->index * (C.procs + C.gprocs) + slot);
    return C.npids ? C.pids[k % (u32)C.npids] : 4000000u + k;
}
static u64 proc_mem(gpu_t *g, int slot) {
    int n = C.procs + C.gprocs;
    return (256 + hash((u32)g->index, (u32)slot) % 512) * MIB * (n < 16 ? 8 : n < 64 ? 2 : 1);
}
static u32 proc_sm(gpu_t *g, int slot) { u32 n = (u32)(C.procs ? C.procs : 1), u = util(g); return u == 0 ? 0 : (u + hash((u32)g->index, (u32)slot) % 5) / n; }
static u64 mem_used(gpu_t *g) {
    u64 u = 3 * MIB + g->orphaned;
    int n = (int)nproc(g);
    for (int i = 0; i < n; i++) u += proc_mem(g, g->mig >= 0 ? g->mig + i * MAXMIG : i);
    for (int i = 0; i < C.gprocs && g->mig < 0; i++) u += proc_mem(g, C.procs + i);
    if (!n && C.load != 1) u += (u64)(g->total / MIB * 0.7 * wave(g->index, 300, 1)) * MIB;
    else if (C.load == WAVE) u += (u64)(64 * wave(g->index, 7, 2)) * MIB;
    return u > g->total - GIB ? g->total - GIB : u;
}
static int island(gpu_t *g) { return g->index / 4; }
static int numa(int i) { return C.devices > 1 && i >= C.devices / 2; }
/* the peer at the other end of a link; -1 switch, -2 link is off */
static int peer(gpu_t *g, u32 link) {
    if (link >= NLINK || C.topo == NOLINK || g->down >> link & 1) return -2;
    if (C.topo == NVSWITCH) return -1;
    int first = island(g) * 4, k = (int)link / 4, p = first + k;
    if (p >= g->index) p++;
    return p < C.devices && p < first + 4 ? p : -2;
}
static void uuid(gpu_t *g, char *b) {
    if (g->mig >= 0) sprintf(b, "MIG-%08x-fa4e-5000-8000-%012x", 0xa1000000u + (u32)g->mig, 0xfa4e);
    else sprintf(b, "GPU-%08x-fa4e-4000-8000-%012x", 0x10000000u + (u32)g->index, g->index + 1);
}
static void pci(int i, u32 *dom, u32 *bus) { *dom = (u32)i / 16; *bus = 0x07 + ((u32)i % 16) * 0x0f; }
static void fill_pci(int i, pci_t *p, int ext) {
    memset(p, 0, ext ? sizeof *p : offsetof(pci_t, subId));
    pci(i, &p->domain, &p->bus);
    snprintf(p->busIdLegacy, sizeof p->busIdLegacy, "%04X:%02X:00.0", p->domain, p->bus);
    p->devId = C.model == SXM ? 0x20B210DE : C.model == PCIE ? 0x26B910DE : 0x268410DE;
    if (ext) { p->subId = 0x146310DE; snprintf(p->busId, sizeof p->busId, "%08X:%02X:00.0", p->domain, p->bus); }
}

/* What a counter that the settings let rise has counted. */
static u64 risen(gpu_t *g, u32 field, long link) {
    u64 n = 0;
    for (int i = 0; i < nrises; i++) {
        rise_t *r = &rises[i];
        if (r->dev == g->index && r->field == field && (r->link < 0 || r->link == link))
            n += (u64)((now() - 1.7e9) * r->per_second);
    }
    return n;
}

/* ---- library and system ----------------------------------------------------------- */
static int held = -1;
static void hold(void) { const char *s = setting("HOLD"); held = s ? open(s, O_RDONLY | O_CLOEXEC) : -1; }
static void take_stock(void) {          /* only now: NVML looks for GPUs when it is initialised */
    npresent = 0;
    for (int i = 0; i < C.devices; i++)
        if (!(gone[i] = gpus[i].removed)) present[npresent++] = i;
}
static void let_go(void) { if (held >= 0) close(held); held = -1; }
API ret_t nvmlInitWithFlags(u32 flags) {
    static int fid = -1; (void)flags;
    ret_t r = enter(&fid, __func__, 0, BEFORE_INIT, 0);
    if (r) return r;
    if (C.init_ms) pause_us(C.init_ms * 1e3);
    if (C.init_err) return C.init_err;
    if (!__atomic_fetch_add(&inited, 1, __ATOMIC_SEQ_CST)) { hold(); take_stock(); }
    return OK;
}
API ret_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API ret_t nvmlInit(void) { return nvmlInitWithFlags(0); }
API ret_t nvmlShutdown(void) { SYS(); if (!__atomic_sub_fetch(&inited, 1, __ATOMIC_SEQ_CST)) let_go(); return OK; }
API const char *nvmlErrorString(ret_t r) {
    static const char *t[] = { "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded",
        "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM",
        "GPU is lost", "GPU requires reset", "The operating system has blocked the request", "Driver/library version mismatch",
        "In use by another client", "Insufficient Memory", "No data" };
    return r >= 0 && r < (int)(sizeof t / sizeof *t) ? t[r] : r == 25 ? "Argument version mismatch" : "Unknown Error";
}
API ret_t nvmlSystemGetDriverVersion(char *v, u32 n) { SYS(); return str(v, n, "%s", C.driver); }
API ret_t nvmlSystemGetNVMLVersion(char *v, u32 n) { SYS(); return str(v, n, "12.%s", C.driver); }
API ret_t nvmlSystemGetCudaDriverVersion_v2(int *v) { SYS(); NEED(v); *v = 12040; return OK; }
API ret_t nvmlSystemGetCudaDriverVersion(int *v) { SYS(); NEED(v); *v = 12040; return OK; }
API ret_t nvmlSystemGetProcessName(u32 pid, char *name, u32 n) {
    SYS(); NEED(name);
    char path[64], b[256] = ""; snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC); if (fd < 0) return NOT_FOUND;
    ssize_t l = read(fd, b, sizeof b - 1); close(fd); if (l <= 0) return NOT_FOUND;
    snprintf(name, n, "%s", b); return OK;
}
API ret_t nvmlSystemGetHicVersion(u32 *n, void *e) { SYS(); NEED(n); (void)e; *n = 0; return OK; }
API ret_t nvmlUnitGetCount(u32 *n) { SYS(); NEED(n); *n = 0; return OK; }
API ret_t nvmlGetExcludedDeviceCount(u32 *n) { SYS(); NEED(n); *n = 0; return OK; }
API ret_t nvmlSystemGetDriverBranch(void *p, u32 n) { SYS(); NEED(p); (void)n; snprintf((char *)p + 4, 80, "r550_00"); return OK; }
API ret_t nvmlSystemGetTopologyGpuSet(u32 cpu, u32 *n, void **a) {
    SYS(); NEED(n);
    u32 want = 0;
    for (int i = 0; i < C.devices; i++) if (cpu / 32 == (u32)numa(i)) { if (a && want < *n) a[want] = &gpus[i]; want++; }
    *n = want; return OK;
}

/* ---- enumeration ------------------------------------------------------------------ */
API ret_t nvmlDeviceGetCount_v2(u32 *n) { SYS(); NEED(n); *n = (u32)npresent; return OK; }
API ret_t nvmlDeviceGetCount(u32 *n) { SYS(); NEED(n); *n = (u32)npresent; return OK; }
/* A lookup is a call on the device that it finds, so faults of the device hit it too. */
static ret_t found(int *fid, const char *name, gpu_t *g, ret_t otherwise, void **h) {
    gpu_t *same = 0;
    ret_t r = enter(fid, name, g, g ? ANY_DEVICE : SYSTEM, &same);
    if (r) return r;
    if (!g) return otherwise;
    NEED(h); *h = g; return OK;
}
#define FOUND(g, otherwise, h) do { static int fid = -1; return found(&fid, __func__, g, otherwise, h); } while (0)
API ret_t nvmlDeviceGetHandleByIndex_v2(u32 i, void **h) { FOUND(i < (u32)npresent ? &gpus[present[i]] : 0, INVALID, h); }
API ret_t nvmlDeviceGetHandleByIndex(u32 i, void **h) { FOUND(i < (u32)npresent ? &gpus[present[i]] : 0, INVALID, h); }
API ret_t nvmlDeviceGetHandleByUUID(const char *s, void **h) {
    char b[96]; gpu_t *g = 0;
    for (int i = 0; s && i < C.devices; i++) { uuid(&gpus[i], b); if (!strcmp(b, s)) g = &gpus[i]; }
    for (int i = 0; s && C.mig && i < MAXMIG; i++) { uuid(&migs[i], b); if (!strcmp(b, s)) g = &migs[i]; }
    FOUND(g, NOT_FOUND, h);
}
API ret_t nvmlDeviceGetHandleByPciBusId_v2(const char *s, void **h) {
    u32 d = 0, b = 0, x, y; gpu_t *g = 0;
    if (!s || sscanf(s, "%x:%x", &d, &b) != 2) return INVALID;
    for (int i = 0; i < C.devices; i++) { pci(i, &x, &y); if (x == d && y == b) g = &gpus[i]; }
    FOUND(g, NOT_FOUND, h);
}
API ret_t nvmlDeviceGetHandleByPciBusId(const char *s, void **h) { return nvmlDeviceGetHandleByPciBusId_v2(s, h); }
API ret_t nvmlDeviceGetHandleBySerial(const char *s, void **h) {
    long n = s ? atol(s) - 1650523000000 : -1;
    FOUND(n >= 0 && n < C.devices ? &gpus[n] : 0, NOT_FOUND, h);
}

/* ---- identity --------------------------------------------------------------------- */
API ret_t nvmlDeviceGetName(void *h, char *s, u32 n) {
    ANY(h); if (g->mig < 0) return str(s, n, "%s", LIE(UNTEXT, *C.name ? C.name : MODELNAME[C.model]));
    static const char *prof[] = { "3g.40gb", "2g.20gb", "1g.10gb" };
    return str(s, n, "%s MIG %s", MODELNAME[C.model], prof[g->mig]);
}
API ret_t nvmlDeviceGetBrand(void *h, u32 *v) { ANY(h); NEED(v); *v = C.old ? 2 : C.model == GEFORCE ? 5 : 14; return OK; }
API ret_t nvmlDeviceGetIndex(void *h, u32 *v) {
    ANY(h); NEED(v); if (g->mig >= 0) { *v = (u32)g->mig; return OK; }
    for (*v = 0; (int)*v < npresent && present[*v] != g->index; ) ++*v;
    return OK;
}
API ret_t nvmlDeviceGetUUID(void *h, char *s, u32 n) { ANY(h); char b[96]; uuid(g, b); return str(s, n, "%s", b); }
API ret_t nvmlDeviceGetSerial(void *h, char *s, u32 n) { DEV(h); ONLY(C.model != GEFORCE); return str(s, n, "%lld", 1650523000000LL + g->index); }
API ret_t nvmlDeviceGetMinorNumber(void *h, u32 *v) { DEV(h); NEED(v); *v = (u32)g->index; return OK; }
API ret_t nvmlDeviceGetModuleId(void *h, u32 *v) { DEV(h); NEED(v); *v = (u32)g->index + 1; return OK; }
API ret_t nvmlDeviceGetPlatformInfo(void *h, platform_t *p) {
    DEV(h); NEED(p); ONLY(C.grace); if (p->version != 0x200002c) return BAD_VERSION;
    memset(p->guid, 0, sizeof p->guid); memset(p->chassis, 0, sizeof p->chassis);
    if (C.grace == 1) strcpy(p->chassis, "1820000000001");
    p->slot = C.grace == 1 ? 25 : 0; p->tray = C.grace == 1 ? 15 : 0; p->host = 1; p->peer = 1; p->module = (unsigned char)(g->index + 1); return OK;
}
API ret_t nvmlDeviceGetBoardId(void *h, u32 *v) { DEV(h); NEED(v); *v = 0x700u + (u32)g->index * 0x100; return OK; }
API ret_t nvmlDeviceGetMultiGpuBoard(void *h, u32 *v) { DEV(h); NEED(v); *v = 0; return OK; }
API ret_t nvmlDeviceGetBoardPartNumber(void *h, char *s, u32 n) { DEV(h); ONLY(C.model != GEFORCE); return str(s, n, "692-2G506-0210-002"); }
API ret_t nvmlDeviceGetVbiosVersion(void *h, char *s, u32 n) { DEV(h); return str(s, n, "92.00.81.00.06"); }
API ret_t nvmlDeviceGetInforomVersion(void *h, u32 o, char *s, u32 n) { DEV(h); return str(s, n, o == 0 ? "2.0" : o == 1 ? "6.16" : "N/A"); }
API ret_t nvmlDeviceGetInforomImageVersion(void *h, char *s, u32 n) { DEV(h); return str(s, n, "G506.0200.00.05"); }
API ret_t nvmlDeviceGetLastBBXFlushTime(void *h, u64 *t, unsigned long *d) { DEV(h); NEED(t && d); ONLY(C.old); *t = 1790000000000000ull; *d = 12345; return OK; }
API ret_t nvmlDeviceGetInforomConfigurationChecksum(void *h, u32 *v) { DEV(h); NEED(v); *v = 0x5a5a; return OK; }
API ret_t nvmlDeviceValidateInforom(void *h) { DEV(h); return OK; }
API ret_t nvmlDeviceGetGspFirmwareVersion(void *h, char *s) { DEV(h); NEED(s); strcpy(s, C.driver); return OK; }
API ret_t nvmlDeviceGetGspFirmwareMode(void *h, u32 *a, u32 *b) { DEV(h); NEED(a); NEED(b); *a = *b = 1; return OK; }
API ret_t nvmlDeviceGetCudaComputeCapability(void *h, int *a, int *b) { ANY(h); NEED(a); NEED(b); *a = 8; *b = C.model == SXM ? 0 : 9; return OK; }
API ret_t nvmlDeviceGetArchitecture(void *h, u32 *v) { ANY(h); NEED(v); *v = C.old ? 5 : C.model == SXM ? 7 : 8; return OK; }
API ret_t nvmlDeviceGetNumGpuCores(void *h, u32 *v) { DEV(h); NEED(v); *v = C.model == SXM ? 6912 : 16384; return OK; }
API ret_t nvmlDeviceGetMemoryBusWidth(void *h, u32 *v) { DEV(h); NEED(v); *v = C.model == SXM ? 5120 : 384; return OK; }
API ret_t nvmlDeviceGetBusType(void *h, u32 *v) { DEV(h); NEED(v); *v = 2; return OK; }
API ret_t nvmlDeviceGetIrqNum(void *h, u32 *v) { DEV(h); NEED(v); *v = 100 + (u32)g->index; return OK; }
API ret_t nvmlDeviceGetPowerSource(void *h, u32 *v) { DEV(h); NEED(v); *v = 0; return OK; }
API ret_t nvmlDeviceGetPciInfo_v3(void *h, pci_t *p) { ANY(h); NEED(p); fill_pci(g->index, p, 1); return OK; }
API ret_t nvmlDeviceGetPciInfo_v2(void *h, pci_t *p) { ANY(h); NEED(p); fill_pci(g->index, p, 0); p->subId = 0x146310DE; return OK; }
API ret_t nvmlDeviceGetPciInfo(void *h, pci_t *p) { ANY(h); NEED(p); fill_pci(g->index, p, 0); return OK; }
API ret_t nvmlDeviceGetPciInfoExt(void *h, pciext_t *p) {
    DEV(h); NEED(p); if (p->version != 0x1000040) return BAD_VERSION;
    pci_t q; fill_pci(g->index, &q, 1);
    p->domain = q.domain; p->bus = q.bus; p->device = 0; p->devId = q.devId; p->subId = q.subId; p->base = 3; p->sub = 2;
    memcpy(p->busId, q.busId, 32); return OK;
}
API ret_t nvmlDeviceGetBridgeChipInfo(void *h, u32 *v) { DEV(h); NEED(v); ONLY(C.old); v[0] = 1; v[1] = 0; v[2] = 0x12345678; return OK; }
API ret_t nvmlDeviceOnSameBoard(void *a, void *b, int *v) { DEV(a); NEED(v); *v = a == b; return OK; }

/* ---- PCIe ------------------------------------------------------------------------- */
#define GEN (C.model == SXM ? 4u : 4u)
API ret_t nvmlDeviceGetMaxPcieLinkGeneration(void *h, u32 *v) { DEV(h); NEED(v); *v = GEN; return OK; }
API ret_t nvmlDeviceGetGpuMaxPcieLinkGeneration(void *h, u32 *v) { DEV(h); NEED(v); *v = GEN; return OK; }
API ret_t nvmlDeviceGetMaxPcieLinkWidth(void *h, u32 *v) { DEV(h); NEED(v); *v = 16; return OK; }
API ret_t nvmlDeviceGetCurrPcieLinkGeneration(void *h, u32 *v) { DEV(h); NEED(v); *v = util(g) < 3 ? 1 : GEN; return OK; }
API ret_t nvmlDeviceGetCurrPcieLinkWidth(void *h, u32 *v) { DEV(h); NEED(v); *v = (u32)SAY(0, 16); return OK; }
API ret_t nvmlDeviceGetPcieLinkMaxSpeed(void *h, u32 *v) { DEV(h); NEED(v); *v = 16000; return OK; }
API ret_t nvmlDeviceGetPcieSpeed(void *h, u32 *v) { DEV(h); NEED(v); *v = 16000; return OK; }
API ret_t nvmlDeviceGetPcieReplayCounter(void *h, u32 *v) { DEV(h); NEED(v); *v = LIE(NONE32, (u32)risen(g, 94, 0)); return OK; }
API ret_t nvmlDeviceGetPcieThroughput(void *h, u32 c, u32 *v) {
    DEV(h); NEED(v); if (c > 1) return INVALID;
    if (C.pcie_ms) pause_us(C.pcie_ms * 1e3);
    *v = C.load == IDLE ? 0 : (u32)(util(g) * (c ? 90000.0 : 42000.0) * (0.5 + wave(g->index, 11, c)));
    return OK;
}

/* ---- clocks, fans, temperature, power --------------------------------------------- */
API ret_t nvmlDeviceGetClockInfo(void *h, u32 t, u32 *v) { DEV(h); NEED(v); if (t > 3) return INVALID; *v = LIE(NONE32, (u32)SAY(t, clock_mhz(t, g))); return OK; }
API ret_t nvmlDeviceGetMaxClockInfo(void *h, u32 t, u32 *v) {
    DEV(h); NEED(v); if (t > 3) return INVALID;
    *v = t == 2 ? MODELMEMCLK[C.model] : t == 3 ? MODELGFX[C.model] * 9 / 10 : MODELGFX[C.model]; return OK;
}
API ret_t nvmlDeviceGetClock(void *h, u32 t, u32 id, u32 *v) {
    DEV(h); NEED(v); if (t > 3) return INVALID; ONLY(id == 0 || C.model != GEFORCE);
    *v = id == 0 ? clock_mhz(t, g) : t == 2 ? MODELMEMCLK[C.model] : MODELGFX[C.model]; return OK;
}
API ret_t nvmlDeviceGetApplicationsClock(void *h, u32 t, u32 *v) { DEV(h); NEED(v); ONLY(C.model != GEFORCE); *v = t == 2 ? MODELMEMCLK[C.model] : MODELGFX[C.model]; return OK; }
API ret_t nvmlDeviceGetDefaultApplicationsClock(void *h, u32 t, u32 *v) { DEV(h); NEED(v); ONLY(C.model != GEFORCE); *v = t == 2 ? MODELMEMCLK[C.model] : MODELGFX[C.model] - 135; return OK; }
API ret_t nvmlDeviceGetMaxCustomerBoostClock(void *h, u32 t, u32 *v) { DEV(h); NEED(v); *v = t == 2 ? MODELMEMCLK[C.model] : MODELGFX[C.model]; return OK; }
API ret_t nvmlDeviceGetAutoBoostedClocksEnabled(void *h, u32 *a, u32 *b) { DEV(h); NEED(a && b); ONLY(C.old); *a = 1; *b = 0; return OK; }
API ret_t nvmlDeviceGetSupportedMemoryClocks(void *h, u32 *n, u32 *a) {
    DEV(h); NEED(n); if (!a || *n < 1) { *n = 1; return SMALL; } *n = 1; a[0] = MODELMEMCLK[C.model]; return OK;
}
API ret_t nvmlDeviceGetSupportedGraphicsClocks(void *h, u32 m, u32 *n, u32 *a) {
    DEV(h); NEED(n); (void)m; u32 want = (MODELGFX[C.model] - 210) / 15 + 1;
    if (!a || *n < want) { *n = want; return SMALL; }
    for (u32 i = 0; i < want; i++) a[i] = MODELGFX[C.model] - 15 * i;
    *n = want; return OK;
}
API ret_t nvmlDeviceGetNumFans(void *h, u32 *v) { DEV(h); NEED(v); *v = C.model == GEFORCE ? 2 : 0; return OK; }
API ret_t nvmlDeviceGetFanSpeed(void *h, u32 *v) { DEV(h); NEED(v); ONLY(C.model == GEFORCE); *v = LIE(NONE32, temp_c(g) - 5); return OK; }
API ret_t nvmlDeviceGetFanSpeed_v2(void *h, u32 f, u32 *v) { DEV(h); NEED(v); ONLY(C.model == GEFORCE); if (f > 1) return INVALID; *v = LIE(NONE32, temp_c(g) - 5 + f); return OK; }
API ret_t nvmlDeviceGetTargetFanSpeed(void *h, u32 f, u32 *v) { DEV(h); NEED(v); ONLY(C.model == GEFORCE); if (f > 1) return INVALID; *v = temp_c(g) - 5; return OK; }
API ret_t nvmlDeviceGetTemperature(void *h, u32 s, u32 *v) { DEV(h); NEED(v); if (s) return INVALID; *v = LIE(NONE32, temp_c(g)); return OK; }
API ret_t nvmlDeviceGetTemperatureV(void *h, tempv_t *t) { DEV(h); NEED(t); if (t->version != 0x100000C) return BAD_VERSION; if (t->sensor) return INVALID; t->t = LIE(-2147483647, (int)temp_c(g)); return OK; }
API ret_t nvmlDeviceGetTemperatureThreshold(void *h, u32 t, u32 *v) {
    DEV(h); NEED(v); static const u32 th[] = { 92, 89, 95, 85 }; if (C.old && t < 7) { *v = 60 + t; return OK; } ONLY(t < 4); ONLY(!(t == 2 && C.model == GEFORCE)); *v = LIE(NONE32, th[t]); return OK;
}
API ret_t nvmlDeviceGetMarginTemperature(void *h, u32 *p) { DEV(h); NEED(p); ONLY(C.table); p[1] = LIE(NONE32, 85 - temp_c(g)); return OK; }
API ret_t nvmlDeviceGetPerformanceState(void *h, u32 *v) { DEV(h); NEED(v); *v = LIE(32u, util(g) < 3 ? 8 : C.model == GEFORCE ? 2 : 0); return OK; }
API ret_t nvmlDeviceGetPowerState(void *h, u32 *v) { DEV(h); NEED(v); *v = util(g) < 3 ? 8 : C.model == GEFORCE ? 2 : 0; return OK; }
static u64 reasons(gpu_t *g) { u32 u = util(g); return u < 3 ? 1 : u > 93 ? 4 : temp_c(g) > 72 ? 0x20 : 0; }
API ret_t nvmlDeviceGetCurrentClocksThrottleReasons(void *h, u64 *v) { DEV(h); NEED(v); *v = reasons(g); return OK; }
API ret_t nvmlDeviceGetCurrentClocksEventReasons(void *h, u64 *v) { DEV(h); NEED(v); *v = LIE(NONE64, SAY(0, reasons(g))); return OK; }
API ret_t nvmlDeviceGetSupportedClocksThrottleReasons(void *h, u64 *v) { DEV(h); NEED(v); *v = 0x1ff; return OK; }
API ret_t nvmlDeviceGetSupportedClocksEventReasons(void *h, u64 *v) { DEV(h); NEED(v); *v = 0x1ff; return OK; }
API ret_t nvmlDeviceGetPowerManagementMode(void *h, u32 *v) { DEV(h); NEED(v); *v = 1; return OK; }
API ret_t nvmlDeviceGetPowerManagementLimit(void *h, u32 *v) { DEV(h); NEED(v); *v = MODELPOWER[C.model]; return OK; }
API ret_t nvmlDeviceGetPowerManagementDefaultLimit(void *h, u32 *v) { DEV(h); NEED(v); *v = MODELPOWER[C.model]; return OK; }
API ret_t nvmlDeviceGetPowerManagementLimitConstraints(void *h, u32 *a, u32 *b) { DEV(h); NEED(a); NEED(b); *a = 100000; *b = MODELPOWER[C.model]; return OK; }
API ret_t nvmlDeviceGetEnforcedPowerLimit(void *h, u32 *v) { DEV(h); NEED(v); *v = LIE(NONE32, (u32)SAY(0, MODELPOWER[C.model])); return OK; }
API ret_t nvmlDeviceGetPowerUsage(void *h, u32 *v) { DEV(h); NEED(v); *v = LIE(NONE32, power_mw(g)); return OK; }
API ret_t nvmlDeviceGetTotalEnergyConsumption(void *h, u64 *v) { DEV(h); NEED(v); *v = (u64)((now() - 1.7e9) * 200e3); return OK; }
API ret_t nvmlDeviceGetViolationStatus(void *h, u32 t, u64 *p) { DEV(h); NEED(p); (void)t; p[0] = now_us(); p[1] = 0; return OK; }

/* ---- memory, ECC ------------------------------------------------------------------ */
#define RESERVED (600 * MIB)
API ret_t nvmlDeviceGetMemoryInfo(void *h, mem_t *m) { ANY(h); NEED(m); m->total = g->total; m->used = LIE(NONE64, mem_used(g) + RESERVED); m->free = m->total - m->used; return OK; }
API ret_t nvmlDeviceGetMemoryInfo_v2(void *h, mem2_t *m) {
    ANY(h); NEED(m); if (m->version != 0x02000028) return BAD_VERSION;
    m->total = g->total; m->reserved = RESERVED; m->used = LIE(NONE64, mem_used(g)); m->free = m->total - m->used - RESERVED;
    if (!SAYS) return OK;
    m->total = SAY(0, m->total / MIB) * MIB; m->reserved = SAY(1, RESERVED / MIB) * MIB;
    m->free = SAY(2, m->free / MIB) * MIB; m->used = SAY(3, m->used / MIB) * MIB; return OK;
}
API ret_t nvmlDeviceGetBAR1MemoryInfo(void *h, mem_t *m) { ANY(h); NEED(m); m->total = 128 * GIB; m->used = 4 * MIB; m->free = m->total - m->used; return OK; }
API ret_t nvmlDeviceGetEccMode(void *h, u32 *a, u32 *b) { DEV(h); NEED(a); NEED(b); ONLY(C.model != GEFORCE); *a = (u32)SAY(0, 1); *b = (u32)SAY(1, 1); return OK; }
API ret_t nvmlDeviceGetDramEncryptionMode(void *h, u32 *a, u32 *b) {     /* a version and a state each */
    DEV(h); NEED(a && b); ONLY(C.grace); if (*a != 0x1000008 || *b != 0x1000008) return BAD_VERSION;
    a[1] = 1; b[1] = 0; return OK;
}
API ret_t nvmlDeviceGetPdi(void *h, pdi_t *p) { DEV(h); NEED(p); ONLY(C.grace); if (p->version != 0x1000010) return BAD_VERSION; p->value = 0x7a0be3dbdf8d5511ull; return OK; }
API ret_t nvmlDeviceGetCapabilities(void *h, u32 *p) { DEV(h); NEED(p); ONLY(C.grace); if (*p != 0x1000008) return BAD_VERSION; p[1] = 1; return OK; }
API ret_t nvmlDeviceGetRepairStatus(void *h, u32 *p) { DEV(h); NEED(p); ONLY(C.grace); if (*p != 0x100000C) return BAD_VERSION; p[1] = 1; p[2] = 0; return OK; }
API ret_t nvmlDeviceGetUnrepairableMemoryFlag_v1(void *h, u32 *p) { DEV(h); NEED(p); ONLY(C.grace); if (*p != 0x1000008) return BAD_VERSION; p[1] = 0; return OK; }
API ret_t nvmlDeviceGetDefaultEccMode(void *h, u32 *a) { DEV(h); NEED(a); ONLY(C.model != GEFORCE); *a = 1; return OK; }
API ret_t nvmlDeviceGetTotalEccErrors(void *h, u32 e, u32 c, u64 *v) { DEV(h); NEED(v); ONLY(C.model != GEFORCE); *v = SAY(e + 2 * c, e == 0 && g->index % 8 == 3 ? 2 + c : 0); return OK; }
API ret_t nvmlDeviceGetDetailedEccErrors(void *h, u32 e, u32 c, u64 *v) { DEV(h); NEED(v); ONLY(C.model != GEFORCE); (void)e; (void)c; memset(v, 0, 32); return OK; }
API ret_t nvmlDeviceGetMemoryErrorCounter(void *h, u32 e, u32 c, u32 l, u64 *v) { ANY(h); NEED(v); ONLY(C.model != GEFORCE); *v = C.worn == 1 ? 100 * e + 10 * c + l : 0; return OK; }
/* A worn board: a page retired for each cause, errors in each kind of memory, processes of before;
 * one that is new has the same lists, empty. */
API ret_t nvmlDeviceGetRetiredPages_v2(void *h, u32 c, u32 *n, u64 *a, u64 *t) {
    DEV(h); NEED(n); ONLY(C.worn); if (C.worn == 2) { *n = 0; return OK; }
    if (!a || *n < 1) { *n = 1; return SMALL; }
    *n = 1; a[0] = 0x1000 * (c + 1); if (t) t[0] = 1790000000 + c; return OK;
}
API ret_t nvmlDeviceGetRetiredPages(void *h, u32 c, u32 *n, u64 *a) { return nvmlDeviceGetRetiredPages_v2(h, c, n, a, 0); }
API ret_t nvmlDeviceGetRemappedRows_v2(void *h, u32 *v) { DEV(h); NEED(v); ONLY(atoi(C.driver) >= 580 && C.model != GEFORCE); memset(v, 0, 24); v[1] = (u32)SAY(0, 0); v[3] = (u32)SAY(1, 0); return OK; }
API ret_t nvmlDeviceGetRemappedRows(void *h, u32 *c, u32 *u, u32 *p, u32 *f) { DEV(h); NEED(c && u && p && f); ONLY(C.model != GEFORCE); *c = (u32)SAY(0, g->index % 8 == 3); *u = (u32)SAY(1, 0); *p = (u32)SAY(2, 0); *f = (u32)SAY(3, 0); return OK; }
API ret_t nvmlDeviceGetRetiredPagesPendingStatus(void *h, u32 *v) { DEV(h); NEED(v); ONLY(SAYS); *v = (u32)SAY(0, 0); return OK; }
API ret_t nvmlDeviceGetSramEccErrorStatus(void *h, sram_t *s) {
    DEV(h); NEED(s); ONLY(SAYS); if (s->version != 0x1000068) return BAD_VERSION;
    memset(s->counts, 0, sizeof s->counts); s->exceeded = (u32)SAY(0, 0); return OK;
}
API ret_t nvmlDeviceGetC2cModeInfoV(void *h, u32 *v) { DEV(h); NEED(v); ONLY(SAYS); *v = (u32)SAY(0, 0); return OK; }
API ret_t nvmlDeviceGetAddressingMode(void *h, u32 *v) { DEV(h); NEED(v); ONLY(SAYS); v[1] = (u32)SAY(0, 0); return OK; }
API ret_t nvmlDeviceGetRowRemapperHistogram(void *h, u32 *v) { DEV(h); NEED(v); ONLY(C.model != GEFORCE); v[0] = 640; v[1] = v[2] = v[3] = v[4] = 0; return OK; }

/* ---- utilisation ------------------------------------------------------------------ */
API ret_t nvmlDeviceGetUtilizationRates(void *h, u32 *v) { DEV(h); NEED(v); ONLY(!(C.mig && g->index == 0)); v[0] = LIE(37100u, (u32)SAY(0, util(g))); v[1] = LIE(NONE32, (u32)SAY(1, memutil(g))); return OK; }
static ret_t codec(gpu_t *g, u32 *v, u32 *p, int k) { NEED(v); NEED(p); *v = LIE(37100u, g->index % 4 == k && C.load == WAVE ? util(g) / 5 : 0); *p = 167000; return OK; }
API ret_t nvmlDeviceGetEncoderUtilization(void *h, u32 *v, u32 *p) { DEV(h); ONLY(!(C.mig && g->index == 0)); return codec(g, v, p, 1); }
API ret_t nvmlDeviceGetDecoderUtilization(void *h, u32 *v, u32 *p) { DEV(h); ONLY(!(C.mig && g->index == 0)); return codec(g, v, p, 2); }
API ret_t nvmlDeviceGetJpgUtilization(void *h, u32 *v, u32 *p) { DEV(h); return codec(g, v, p, 9); }
API ret_t nvmlDeviceGetOfaUtilization(void *h, u32 *v, u32 *p) { DEV(h); return codec(g, v, p, 9); }
API ret_t nvmlDeviceGetEncoderStats(void *h, u32 *a, u32 *b, u32 *c) { DEV(h); NEED(a && b && c); *a = *b = *c = 0; return OK; }
API ret_t nvmlDeviceGetEncoderSessions(void *h, u32 *n, void *a) { DEV(h); NEED(n); (void)a; *n = 0; return OK; }
API ret_t nvmlDeviceGetFBCStats(void *h, u32 *v) { DEV(h); NEED(v); v[0] = v[1] = v[2] = 0; return OK; }
API ret_t nvmlDeviceGetFBCSessions(void *h, u32 *n, void *a) { DEV(h); NEED(n); (void)a; *n = 0; return OK; }
API ret_t nvmlDeviceGetSamples(void *h, u32 type, u64 last, u32 *vt, u32 *n, sample_t *a) {
    DEV(h); NEED(n); NEED(vt); *vt = 1; u64 t = now_us();
    if (!a) { *n = 120; return OK; }
    u32 k = 0;
    for (int i = 119; i >= 0 && k < *n; i--) {
        u64 ts = t - (u64)i * 100000; if (ts <= last) continue;
        a[k].ts = ts; a[k].v.ull = 0; a[k].v.u = (type == 0 ? power_mw(g) : type == 2 ? memutil(g) : util(g)) * (u32)(i % 7 + 1) / 7; k++;
    }
    *n = k; return k ? OK : NOT_FOUND;
}

/* ---- modes ------------------------------------------------------------------------ */
API ret_t nvmlDeviceGetComputeMode(void *h, u32 *v) { ANY(h); NEED(v); *v = 0; return OK; }
API ret_t nvmlDeviceGetPersistenceMode(void *h, u32 *v) { DEV(h); NEED(v); *v = (u32)SAY(0, C.model != GEFORCE); return OK; }
API ret_t nvmlDeviceGetDisplayMode(void *h, u32 *v) { DEV(h); NEED(v); *v = C.model == GEFORCE && g->index == 0; return OK; }
API ret_t nvmlDeviceGetDisplayActive(void *h, u32 *v) { DEV(h); NEED(v); *v = C.model == GEFORCE && g->index == 0; return OK; }
API ret_t nvmlDeviceGetAccountingMode(void *h, u32 *v) { DEV(h); NEED(v); *v = C.worn != 0; return OK; }
API ret_t nvmlDeviceGetAccountingPids(void *h, u32 *n, u32 *a) {
    DEV(h); NEED(n); if (C.worn != 1) { *n = 0; return OK; }
    if (!a || *n < 2) { *n = 2; return SMALL; }
    *n = 2; a[0] = 4242; a[1] = 4243; return OK;
}
API ret_t nvmlDeviceGetAccountingStats(void *h, u32 pid, accounted_t *s) {
    DEV(h); NEED(s); ONLY(C.worn == 1); if (pid < 4242 || pid > 4243) return NOT_FOUND;
    *s = (accounted_t){ 71, 33, 5 * GIB + pid, 61234, 1790000000000000ull, pid == 4243, { 0 } };
    return OK;
}
API ret_t nvmlDeviceGetAccountingBufferSize(void *h, u32 *v) { DEV(h); NEED(v); *v = 4000; return OK; }
API ret_t nvmlDeviceGetVirtualizationMode(void *h, u32 *v) { DEV(h); NEED(v); *v = C.old; return OK; }
API ret_t nvmlDeviceGetHostVgpuMode(void *h, u32 *v) { DEV(h); NEED(v); ONLY(C.old); *v = 1; return OK; }
API ret_t nvmlDeviceGetSupportedEventTypes(void *h, u64 *v) { DEV(h); NEED(v); *v = 0x8 | 0x2; return OK; }

/* ---- processes -------------------------------------------------------------------- */
static ret_t plist(gpu_t *g, int from, int count, u32 *n, void *a, int ver) {
    NEED(n);
    if (g->mig >= 0) count = from ? 0 : (int)nproc(g);
    if (*n < (u32)count || (count && !a)) { *n = (u32)count; return SMALL; }
    for (int i = 0; i < count; i++) {
        int slot = from + (g->mig >= 0 ? g->mig + i * MAXMIG : i);
        u32 gi = g->mig >= 0 ? g->gi : C.mig && g->index == 0 ? (u32)(slot % MAXMIG) + 1 : NONE32;
        u32 pid = LIE(0, proc_pid(g, slot)); u64 m = LIE(NONE64, proc_mem(g, slot));
        if (ver == 1) ((proc1_t *)a)[i] = (proc1_t){ pid, m };
        else ((proc2_t *)a)[i] = (proc2_t){ pid, m, gi, gi == NONE32 ? gi : 0 };
    }
    *n = (u32)count; return OK;
}
API ret_t nvmlDeviceGetComputeRunningProcesses(void *h, u32 *n, void *a) { ANY(h); return plist(g, 0, C.procs, n, a, 1); }
API ret_t nvmlDeviceGetComputeRunningProcesses_v2(void *h, u32 *n, void *a) { ANY(h); return plist(g, 0, C.procs, n, a, 2); }
API ret_t nvmlDeviceGetComputeRunningProcesses_v3(void *h, u32 *n, void *a) { ANY(h); return plist(g, 0, C.procs, n, a, 3); }
API ret_t nvmlDeviceGetGraphicsRunningProcesses(void *h, u32 *n, void *a) { ANY(h); return plist(g, C.procs, C.gprocs, n, a, 1); }
API ret_t nvmlDeviceGetGraphicsRunningProcesses_v2(void *h, u32 *n, void *a) { ANY(h); return plist(g, C.procs, C.gprocs, n, a, 2); }
API ret_t nvmlDeviceGetGraphicsRunningProcesses_v3(void *h, u32 *n, void *a) { ANY(h); return plist(g, C.procs, C.gprocs, n, a, 3); }
API ret_t nvmlDeviceGetMPSComputeRunningProcesses(void *h, u32 *n, void *a) { ANY(h); return plist(g, 0, 0, n, a, 1); }
API ret_t nvmlDeviceGetMPSComputeRunningProcesses_v2(void *h, u32 *n, void *a) { ANY(h); return plist(g, 0, 0, n, a, 2); }
API ret_t nvmlDeviceGetMPSComputeRunningProcesses_v3(void *h, u32 *n, void *a) { ANY(h); return plist(g, 0, 0, n, a, 3); }
API ret_t nvmlDeviceGetRunningProcessDetailList(void *h, procdetlist_t *l) {
    ANY(h); NEED(l); if (l->version != 0x1000018) return BAD_VERSION;
    int from = l->mode == 1 ? C.procs : 0, count = l->mode == 0 ? C.procs : l->mode == 1 ? C.gprocs : 0;
    if (l->n < (u32)count || (count && !l->a)) { l->n = (u32)count; return SMALL; }
    for (int i = 0; i < count; i++) l->a[i] = (procdet_t){ proc_pid(g, from + i), proc_mem(g, from + i), NONE32, NONE32, 0 };
    l->n = (u32)count; return OK;
}
static u64 sample_ts(void) { return now_us() / 1000000 * 1000000; }    /* a new batch every second */
API ret_t nvmlDeviceGetProcessUtilization(void *h, procutil_t *a, u32 *n, u64 last) {
    DEV(h); NEED(n); ONLY(!(C.mig && g->index == 0)); u32 want = nproc(g); u64 ts = sample_ts();
    if (last >= ts || !want) { *n = 0; return NOT_FOUND; }
    if (!a || *n < want) { *n = want; return SMALL; }
    for (u32 i = 0; i < want; i++) {
        u32 s = LIE(2147483632u, proc_sm(g, (int)i));
        a[i] = (procutil_t){ proc_pid(g, (int)i), ts, s, s / 2, 0, 0 };
    }
    *n = want; return OK;
}
API ret_t nvmlDeviceGetProcessesUtilizationInfo(void *h, procutillist_t *l) {
    DEV(h); NEED(l); if (l->version != 0x01000018) return BAD_VERSION;
    u32 want = nproc(g); u64 ts = sample_ts();
    if (l->last >= ts || !want) { l->n = 0; return NOT_FOUND; }
    if (!l->a || l->n < want) { l->n = want; return SMALL; }
    for (u32 i = 0; i < want; i++) { u32 s = LIE(2147483632u, proc_sm(g, (int)i)); l->a[i] = (procutil2_t){ ts, proc_pid(g, (int)i), s, s / 2, 0, 0, 0, 0 }; }
    l->n = want; return OK;
}

/* ---- topology, NVLink ------------------------------------------------------------- */
static u32 level(int a, int b) { return a == b ? 0 : a / 2 == b / 2 ? 10 : a / 4 == b / 4 ? 20 : numa(a) == numa(b) ? 40 : 50; }
API ret_t nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, u32 *v) { DEV(a); gpu_t *q = valid(b); NEED(q); NEED(v); *v = level(g->index, q->index); return OK; }
API ret_t nvmlDeviceGetTopologyNearestGpus(void *h, u32 lv, u32 *n, void **a) {
    DEV(h); NEED(n); u32 k = 0;
    for (int i = 0; i < C.devices; i++) if (i != g->index && level(g->index, i) == lv) { if (a && k < *n) a[k] = &gpus[i]; k++; }
    *n = k; return OK;
}
static int linked(gpu_t *a, gpu_t *b) { return C.topo == NVSWITCH ? a != b : C.topo == ISLANDS && a != b && island(a) == island(b); }
API ret_t nvmlDeviceGetP2PStatus(void *a, void *b, u32 what, u32 *v) { DEV(a); gpu_t *q = valid(b); NEED(q); NEED(v); *v = what == 2 ? (linked(g, q) ? 0 : 5) : C.model == GEFORCE ? 2 : 0; return OK; }
static ret_t cpuset(gpu_t *g, u32 n, unsigned long *s) {
    NEED(s); memset(s, 0, n * sizeof *s);
    for (u32 c = 0; c < 32; c++) { u32 k = c + (numa(g->index) ? 32 : 0); if (k / 64 < n) s[k / 64] |= 1ul << k % 64; }
    return OK;
}
API ret_t nvmlDeviceGetCpuAffinity(void *h, u32 n, unsigned long *s) { DEV(h); return cpuset(g, n, s); }
API ret_t nvmlDeviceGetCpuAffinityWithinScope(void *h, u32 n, unsigned long *s, u32 sc) { DEV(h); (void)sc; return cpuset(g, n, s); }
API ret_t nvmlDeviceGetMemoryAffinity(void *h, u32 n, unsigned long *s, u32 sc) { DEV(h); NEED(s); NEED(n); (void)sc; memset(s, 0, n * sizeof *s); s[0] = 1ul << numa(g->index); return OK; }
API ret_t nvmlDeviceGetNumaNodeId(void *h, u32 *v) { DEV(h); NEED(v); ONLY(C.grace); *v = (u32)numa(g->index); return OK; }
#define LINKOK() do { ONLY(C.topo != NOLINK); if (link >= 18) return INVALID; if (link >= NLINK) return UNSUPPORTED; } while (0)
API ret_t nvmlDeviceGetNvLinkState(void *h, u32 link, u32 *v) { DEV(h); NEED(v); LINKOK(); *v = peer(g, link) != -2; return OK; }
API ret_t nvmlDeviceGetNvLinkVersion(void *h, u32 link, u32 *v) { DEV(h); NEED(v); LINKOK(); *v = 3; return OK; }
API ret_t nvmlDeviceGetNvLinkCapability(void *h, u32 link, u32 c, u32 *v) { DEV(h); NEED(v); LINKOK(); if (c > 5) return INVALID; *v = c == 4 ? 0 : peer(g, link) != -2; return OK; }
API ret_t nvmlDeviceGetNvLinkErrorCounter(void *h, u32 link, u32 c, u64 *v) { DEV(h); NEED(v); LINKOK(); if (c > 3) return INVALID;
    static const u32 field[] = { 161, 162, 163, 163 }; *v = LIE(NONE64, risen(g, field[c], link)); return OK;
}
API ret_t nvmlDeviceGetNvLinkRemotePciInfo_v2(void *h, u32 link, pci_t *p) {
    DEV(h); NEED(p); LINKOK(); int q = peer(g, link);
    if (q == -2) return UNSUPPORTED;
    if (q >= 0) { fill_pci(q, p, 1); return OK; }
    memset(p, 0, sizeof *p); p->domain = 0; p->bus = 0xd0 + link / 2; p->devId = 0x1af110de;
    snprintf(p->busId, sizeof p->busId, "%08X:%02X:00.0", 0, p->bus);
    snprintf(p->busIdLegacy, sizeof p->busIdLegacy, "%04X:%02X:00.0", 0, p->bus); return OK;
}
API ret_t nvmlDeviceGetNvLinkRemotePciInfo(void *h, u32 link, pci_t *p) { return nvmlDeviceGetNvLinkRemotePciInfo_v2(h, link, p); }
API ret_t nvmlDeviceGetNvLinkRemoteDeviceType(void *h, u32 link, u32 *v) { DEV(h); NEED(v); LINKOK(); int q = peer(g, link); if (q == -2) return UNSUPPORTED; *v = q == -1 ? 2 : 0; return OK; }
API ret_t nvmlDeviceGetNvLinkUtilizationCounter(void *h, u32 link, u32 c, u64 *rx, u64 *tx) { DEV(h); LINKOK(); (void)c; (void)rx; (void)tx; return UNSUPPORTED; }

/* NVLink counters, KiB since an epoch: a smooth integral of the load, so that rates come out near 0..20 GB/s a link */
static u64 link_kib(gpu_t *g, int tx) {
    double t = now() - 1.7e9, w = 6.283185307 / 23, ph = g->index * 0.9;
    return (u64)((t * 0.5 - 0.5 / w * (wsin(t * w + ph + 1.570796) - 1)) * (tx ? 16e6 : 14e6));
}
/* Power of a Grace module, all numbers different: average, instant; lowest, highest, default, enforced and requested limit. */
static u32 module_mw(u32 id) {
    static const u32 mw[] = { 488290, 487680, 500000, 2900000, 2800000, 2600000, 0, 2700000 };
    return mw[id - 185];
}
/* A field's id since 580.82, from its id in this driver; 0 for one that it does not know. 575 to
 * 580.65 had the clocks event reasons before power smoothing, 570 power smoothing alone. */
static u32 today(u32 id) {
    int major = 0, minor = 0;
    sscanf(C.driver, "%d.%d", &major, &minor);
    if (id < 251 || id > 273) return id;
    if (major < 575) return major == 570 && id < 269 ? id : 0;
    if (major < 580 || (major == 580 && minor < 66)) return id < 256 ? id + 18 : id - 5;
    return id;
}
API ret_t nvmlDeviceGetFieldValues(void *h, int n, field_t *f) {
    DEV(h); NEED(f);
    for (int i = 0; i < n; i++) {
        field_t *x = &f[i]; u32 link = x->scope; int all = link == NONE32, islink = 0;
        if (C.trace > 1) fprintf(stderr, "  field %u scope %u\n", x->id, x->scope);
        x->ts = (long long)now_us(); x->lat = 1; x->ret = OK; x->type = 3; x->v.ull = 0;
        u32 id = today(x->id);
        count_value(id);
        switch (id) {
        case 0: x->ret = INVALID; break;
        case 251 ... 268: x->type = 1; break;   /* power smoothing, which is off */
        case 1: case 2: if (C.model == GEFORCE) x->ret = UNSUPPORTED; x->type = 1; x->v.u = 1; break;
        case 3: case 5: x->v.ull = g->index % 8 == 3 ? 2 : 0; if (C.model == GEFORCE) x->ret = UNSUPPORTED; break;
        case 4: case 6: if (C.model == GEFORCE) x->ret = UNSUPPORTED; break;
        case 74: case 75: case 76: case 77: case 78: case 79: case 80: case 81:
        case 269: case 270: case 271: x->v.ull = risen(g, id, -1); break;
        case 161: case 162: case 163: islink = 1; x->v.ull = risen(g, x->id, link); break;
        case 82: if (C.model == GEFORCE) x->ret = UNSUPPORTED; x->type = 1; x->v.u = temp_c(g) + 6; break;
        case 83: case 191: x->v.ull = (u64)((now() - 1.7e9) * 200e3); break;
        case 90: islink = 1; x->type = 1; x->v.u = 25000; break;
        case 91: islink = 1; x->type = 1; x->v.u = NLINK; break;
        case 94: case 95: x->type = 1; x->v.u = 0; break;
        case 138: case 140: islink = 1; x->v.ull = link_kib(g, 1) * (all ? NLINK : 1); break;
        case 139: case 141: islink = 1; x->v.ull = link_kib(g, 0) * (all ? NLINK : 1); break;
        case 142: x->type = 1; x->v.u = g->index % 8 == 3; break;
        case 143: case 144: case 145: x->type = 1; x->v.u = 0; break;
        case 146: islink = 1; x->type = 1; x->v.u = link; break;
        case 147: islink = 1; x->type = 1; x->v.u = NLINK; if (C.topo != NVSWITCH) x->ret = UNSUPPORTED; break;
        case 164: islink = 1; x->type = 1; x->v.u = 25000; break;
        case 165: islink = 1; x->type = 1; x->v.u = peer(g, link) != -2; break;
        case 166: islink = 1; x->type = 1; x->v.u = 3; break;
        case 185: case 186: case 187: case 188: case 189: case 190: case 192:
            if (x->scope == 1) { x->type = 1; x->v.u = module_mw(x->id); if (!C.grace) x->ret = UNSUPPORTED; break; }
            x->type = 1; x->v.u = x->id < 187 ? power_mw(g) : x->id == 187 ? 100000 : MODELPOWER[C.model]; break;
        case 193: if (!C.table) x->ret = UNSUPPORTED; x->type = 5; x->v.i = -7; break;
        case 194: if (!C.table) x->ret = UNSUPPORTED; x->type = 5; x->v.i = -4; break;
        case 196: if (!C.table) x->ret = UNSUPPORTED; x->type = 5; x->v.i = 0; break;
        case 230: x->type = 1; x->v.u = 0; break;
        case 197: case 198: x->v.ull = link_kib(g, x->id == 197) * 100; break;
        default: x->ret = UNSUPPORTED;
        }
        if (nanswers) {
            char name[24]; snprintf(name, sizeof name, "field%u", x->id);
            const answer_t *a = answer_of(g, name);
            if (a && a->kind[0] == NONE) x->ret = UNSUPPORTED;
            else if (a) { x->ret = OK; x->type = 3; x->v.ull = a->n[0]; }
        }
        if (lies) x->v.ull = NONE64;
        if (islink && (C.topo == NOLINK || (!all && link >= NLINK))) x->ret = UNSUPPORTED;
    }
    return OK;
}

/* ---- MIG -------------------------------------------------------------------------- */
API ret_t nvmlDeviceGetMigMode(void *h, u32 *a, u32 *b) { DEV(h); NEED(a); NEED(b); ONLY(C.model == SXM); *a = (u32)SAY(0, C.mig && g->index == 0); *b = (u32)SAY(1, C.mig && g->index == 0); return OK; }
API ret_t nvmlDeviceGetMaxMigDeviceCount(void *h, u32 *v) { DEV(h); NEED(v); *v = C.model == SXM ? 7 : 0; return OK; }
API ret_t nvmlDeviceGetMigDeviceHandleByIndex(void *h, u32 i, void **o) { DEV(h); NEED(o); if (!C.mig || g->index || i >= MAXMIG) return NOT_FOUND; *o = &migs[i]; return OK; }
API ret_t nvmlDeviceIsMigDeviceHandle(void *h, u32 *v) { ANY(h); NEED(v); *v = g->mig >= 0; return OK; }
API ret_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *h, void **o) { ANY(h); NEED(o); if (!g->parent) return INVALID; *o = g->parent; return OK; }
API ret_t nvmlDeviceGetGpuInstanceId(void *h, u32 *v) { ANY(h); NEED(v); ONLY(g->mig >= 0); *v = g->gi; return OK; }
API ret_t nvmlDeviceGetComputeInstanceId(void *h, u32 *v) { ANY(h); NEED(v); ONLY(g->mig >= 0); *v = 0; return OK; }
API ret_t nvmlDeviceGetAttributes_v2(void *h, attr_t *a) {
    ANY(h); NEED(a); ONLY(g->mig >= 0); static const u32 sl[] = { 3, 2, 1 }; u32 s = sl[g->mig];
    *a = (attr_t){ 14 * s, s, s - 1, 0, 0, 0, s, s, g->total / MIB }; return OK;
}
API ret_t nvmlDeviceGetAttributes(void *h, attr_t *a) { return nvmlDeviceGetAttributes_v2(h, a); }

/* ---- the NVSwitch fabric ---------------------------------------------------------- */
API ret_t nvmlDeviceGetGpuFabricInfoV(void *h, fabric_t *f) {
    DEV(h); NEED(f); ONLY(C.fabric);
    if (f->version != 0x02000024 && f->version != 0x03000028) return BAD_VERSION;
    if (f->version == 0x03000028) f->summary = (unsigned char)C.fabric_summary;
    memset(f->cluster, 0xab, sizeof f->cluster);
    f->status = C.fabric_status; f->clique = 1; f->state = (u32)C.fabric; f->health = (u32)C.fabric_health;
    return OK;
}
API ret_t nvmlDeviceGetGpuFabricInfo(void *h, fabric_v1_t *f) {
    DEV(h); NEED(f); ONLY(C.fabric);
    memset(f->cluster, 0xab, sizeof f->cluster);
    f->status = C.fabric_status; f->clique = 1; f->state = (unsigned char)C.fabric;
    return OK;
}

#include "gpm.h"
#include "events.h"
#include "mig.h"
#include "smi_table.h"
#include "unsupported.h"
