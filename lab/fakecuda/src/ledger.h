// The ledger: everything about the fake devices that a test reads or sets, in one shared file.
//
// ledger.py reads the two lists below to know the layout: every X is one unsigned 64-bit number.
#pragma once
#include <cstdint>
#include <mutex>

constexpr uint64_t LEDGER_MAGIC = 0x3141444b4146u;  // "FAKDA1"
constexpr int MAX_DEVICES = 8;

#define DEVICE_WORDS(X)                                                                   \
    /* Settings, read at every call. fail_in 1 lets the next allocation fail, 0 none. */  \
    X(capacity_bytes) X(other_process_bytes) X(context_bytes)                             \
    X(fail_in) X(fail_times) X(fail_above_bytes)                                          \
    /* Memory. used = context + malloc + handle + pool_reserved. */                       \
    X(used_bytes) X(peak_used_bytes) X(context_used_bytes) X(malloc_bytes)                \
    X(handle_bytes) X(peak_handle_bytes) X(pool_reserved_bytes) X(pool_used_bytes)        \
    X(mapped_bytes) X(peak_mapped_bytes)                                                  \
    /* Counts since the start. Bytes copied name the direction. */                        \
    X(allocations) X(frees) X(refused) X(failed_on_purpose) X(maps) X(unmaps)             \
    X(bytes_mapped) X(bytes_unmapped) X(htod_bytes) X(dtoh_bytes) X(dtod_bytes)           \
    X(launches) X(library_calls)                                                          \
    /* The largest workspace that a cuDNN plan ran with; a reader may start it again. */  \
    X(largest_workspace_bytes)

#define LEDGER_WORDS(X)                                                                   \
    X(magic) X(pid) X(device_count) X(capability) X(cudnn_workspace_bytes) X(pinned_bytes)

struct DeviceWords {
#define X(name) uint64_t name;
    DEVICE_WORDS(X)
#undef X
};

struct Ledger {
#define X(name) uint64_t name;
    LEDGER_WORDS(X)
#undef X
    DeviceWords devices[MAX_DEVICES];
};

// The one lock of the driver. Kernel launches do without it.
std::mutex &driver_lock();
// The ledger of this process, made from the environment at the first call.
Ledger &ledger();
// How many devices this process sees (CUDA_VISIBLE_DEVICES), and which of the ledger's is number n.
int device_count();
int physical_index(int device);
DeviceWords &words(int device);

// One allocation begins: false when the test asked for it to fail.
bool may_allocate(int device, uint64_t bytes);
// Charge physical memory to `kind`, or say no; give it back.
bool take(int device, uint64_t bytes, uint64_t DeviceWords::*kind);
void give(int device, uint64_t bytes, uint64_t DeviceWords::*kind);
uint64_t free_bytes(int device);

// Exported to the runtime and to the libraries, which keep no state of their own.
extern "C" {
int fakecuda_launched(void);
int fakecuda_library_call(void);
void fakecuda_used_workspace(uint64_t bytes);
void fakecuda_unsupported(const char *name);
uint64_t fakecuda_cudnn_workspace_bytes(void);
int fakecuda_capability(void);
int fakecuda_copy(void *to, const void *from, uint64_t bytes);
int fakecuda_fill(void *to, int value, uint64_t bytes);
const char *fakecuda_device_name(void);
int fakecuda_physical_count(void);
const DeviceWords *fakecuda_words(int physical);
}
