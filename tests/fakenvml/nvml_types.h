/* The parts of the public NVML interface that the stand-in needs: return values, structures. */
#include <stdint.h>

#define API __attribute__((visibility("default")))
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int ret_t;

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, SMALL = 7,
       TIMEOUT = 10, LOST = 15, BAD_VERSION = 25 };

#define MIB (1024ull * 1024)
#define GIB (1024ull * MIB)
#define NONE32 0xffffffffu              /* no instance id, not available */
#define NONE64 0xffffffffffffffffull    /* memory not available */

typedef struct { char busIdLegacy[16]; u32 domain, bus, device, devId, subId; char busId[32]; } pci_t;
typedef struct { u32 version, domain, bus, device, devId, subId, base, sub; char busId[32]; } pciext_t;
typedef struct { u64 total, free, used; } mem_t;
typedef struct { u32 version; u64 total, reserved, free, used; } mem2_t;
typedef struct { u32 pid; u64 mem; } proc1_t;
typedef struct { u32 pid; u64 mem; u32 gi, ci; } proc2_t;
typedef struct { u32 pid; u64 mem; u32 gi, ci; u64 ccmem; } procdet_t;
typedef struct { u32 version, mode, n; procdet_t *a; } procdetlist_t;
typedef struct { u32 pid; u64 ts; u32 sm, mem, enc, dec; } procutil_t;
typedef struct { u64 ts; u32 pid, sm, mem, enc, dec, jpg, ofa; } procutil2_t;
typedef struct { u32 version, n; u64 last; procutil2_t *a; } procutillist_t;
typedef union { double d; int i; u32 u; unsigned long ul; u64 ull; long long ll; unsigned short us; } value_t;
typedef struct { u32 id, scope; long long ts, lat; u32 type; ret_t ret; value_t v; } field_t;
typedef struct { u64 ts; value_t v; } sample_t;
typedef struct { u32 sm, ce, dec, enc, jpg, ofa, giSlices, ciSlices; u64 memMB; } attr_t;
typedef struct { u32 version, sensor; int t; } tempv_t;
typedef struct { u32 version; u64 value; } pdi_t;
typedef struct { u32 version; unsigned char cluster[16]; ret_t status; u32 clique, state, health;  unsigned char summary; } fabric_t;
typedef struct { unsigned char cluster[16]; ret_t status; u32 clique; unsigned char state; } fabric_v1_t;
typedef struct { u32 version; unsigned char guid[16]; char chassis[16]; unsigned char slot, tray, host, peer, module; } platform_t;
typedef struct { void *device; u64 type, data; u32 gi, ci; } event_t;
typedef struct { u32 version; u64 counts[11]; u32 exceeded; } sram_t;
typedef struct { u32 gpu, mem; u64 max, time, start; u32 running, reserved[5]; } accounted_t;
