// Copies, and the host's pinned memory.
#include <cuda.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "context.h"
#include "ledger.h"
#include "memory.h"
#include "space.h"

namespace {

constexpr uint64_t SMALL = 8;      // bytes: a value that a program would read back as a number
constexpr uint64_t CHUNK = 65536;

// Where small values were copied in, and how many kernels had run by then.
std::map<uint64_t, std::pair<uint64_t, uint64_t>> &copied_in() {
    static auto *all = new std::map<uint64_t, std::pair<uint64_t, uint64_t>>();
    return *all;
}

std::map<uint64_t, uint64_t> &pinned() {
    static auto *all = new std::map<uint64_t, uint64_t>();
    return *all;
}

uint64_t work_done() {
    uint64_t all = 0;
    for (int i = 0; i < device_count(); ++i) all += words(i).launches + words(i).library_calls;
    return all;
}

// Kernels do nothing, so what lies at an address that they should have written is an older value.
// One that a program reads as a number must not come back: it could be taken for a size.
bool is_stale(uint64_t from, uint64_t bytes) {
    auto found = copied_in().upper_bound(from);
    if (found == copied_in().begin()) return true;
    --found;
    bool inside = from + bytes <= found->first + found->second.first;
    return !inside || found->second.second != work_done();
}

void remember(uint64_t to, uint64_t bytes) {
    static uint64_t last_work = 0;
    if (last_work != work_done()) copied_in().clear();  // no earlier one counts any more
    last_work = work_done();
    copied_in()[to] = {bytes, last_work};
}

bool all_zero(const char *at, uint64_t bytes) {
    return bytes == 0 || (at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0);
}

// Copies above this size are counted and not made: what they bring is weights, and no kernel will
// ever look at them.
uint64_t largest_copy() {
    static const uint64_t bytes = [] {
        const char *text = getenv("FAKECUDA_COPY_AT_MOST_KIB");
        double kib = text ? atof(text) : 0;
        return kib > 0 ? (uint64_t)(kib * 1024) : UINT64_MAX;
    }();
    return bytes;
}

// A copy that leaves untouched memory untouched: zeros over zeros would cost real memory.
void copy_sparsely(char *to, const char *from, uint64_t bytes) {
    if (to <= from + bytes && from <= to + bytes) {
        memmove(to, from, bytes);
        return;
    }
    for (uint64_t done = 0; done < bytes; done += CHUNK) {
        uint64_t size = std::min(CHUNK, bytes - done);
        if (!all_zero(from + done, size) || !all_zero(to + done, size))
            memcpy(to + done, from + done, size);
    }
}

int device_at(const void *pointer) {
    int device;
    return find_memory((uint64_t)pointer, &device) ? device : std::max(current_device(), 0);
}

CUresult copy(void *to, const void *from, uint64_t bytes) {
    if (!bytes) return CUDA_SUCCESS;
    if (!to || !from) return CUDA_ERROR_INVALID_VALUE;
    bool into = is_device_address((uint64_t)to), out = is_device_address((uint64_t)from);
    std::unique_lock<std::mutex> held(driver_lock());
    DeviceWords &own = words(device_at(into ? to : from));
    if (into && out) own.dtod_bytes += bytes;
    if (into && !out) own.htod_bytes += bytes;
    if (out && !into) own.dtoh_bytes += bytes;
    if (into && !out) remember((uint64_t)to, bytes);
    if (out && !into && bytes <= SMALL && is_stale((uint64_t)from, bytes)) {
        memset(to, 0, bytes);
        return CUDA_SUCCESS;
    }
    held.unlock();
    if (bytes > largest_copy()) return CUDA_SUCCESS;
    copy_sparsely((char *)to, (const char *)from, bytes);
    return CUDA_SUCCESS;
}

CUresult pin(uint64_t at, uint64_t bytes) {
    std::lock_guard<std::mutex> held(driver_lock());
    auto next = pinned().lower_bound(at + bytes);
    if (next != pinned().begin() && std::prev(next)->first + std::prev(next)->second > at)
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    pinned()[at] = bytes;
    ledger().pinned_bytes += bytes;
    return CUDA_SUCCESS;
}

uint64_t unpin(uint64_t at) {
    std::lock_guard<std::mutex> held(driver_lock());
    auto found = pinned().find(at);
    if (found == pinned().end()) return 0;
    uint64_t bytes = found->second;
    pinned().erase(found);
    ledger().pinned_bytes -= bytes;
    return bytes;
}

bool is_pinned(uint64_t at) {
    auto next = pinned().upper_bound(at);
    return next != pinned().begin() && std::prev(next)->first + std::prev(next)->second > at;
}

}  // namespace

int fakecuda_copy(void *to, const void *from, uint64_t bytes) { return copy(to, from, bytes); }

int fakecuda_fill(void *to, int value, uint64_t bytes) {
    if (value || !all_zero((const char *)to, bytes)) memset(to, value, bytes);
    std::lock_guard<std::mutex> held(driver_lock());
    if (bytes) remember((uint64_t)to, bytes);
    return CUDA_SUCCESS;
}

extern "C" {

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream) {
    return copy((void *)to, from, bytes);
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned int) {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void *at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    *pointer = at;
    return pin((uint64_t)at, bytes);
}
CUresult cuMemAllocHost(void **pointer, size_t bytes) { return cuMemHostAlloc(pointer, bytes, 0); }

CUresult cuMemFreeHost(void *pointer) {
    if (!pointer) return CUDA_SUCCESS;
    uint64_t bytes = unpin((uint64_t)pointer);
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    munmap(pointer, bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void *pointer, size_t bytes, unsigned int) {
    return bytes ? pin((uint64_t)pointer, bytes) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostUnregister(void *pointer) {
    return unpin((uint64_t)pointer) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *pointer, void *host, unsigned int) {
    *pointer = (CUdeviceptr)host;
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute which, CUdeviceptr pointer) {
    std::lock_guard<std::mutex> held(driver_lock());
    int number = 0;
    bool device = find_memory(pointer, &number), host = !device && is_pinned(pointer);
    if (!device && !host) return CUDA_ERROR_INVALID_VALUE;
    switch (which) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *(unsigned int *)value = device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            *(CUdeviceptr *)value = pointer;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *(int *)value = number;
            return CUDA_SUCCESS;
        default:
            return CUDA_ERROR_NOT_SUPPORTED;
    }
}
}
