// The driver's functions for stream-ordered allocation (cudaMallocAsync); the pool itself: pool.h.
#include <cuda.h>

#include <mutex>

#include "context.h"
#include "ledger.h"
#include "memory.h"
#include "pool.h"

namespace {

// Each device's default pool. PyTorch makes no other.
Pool &pool_of(int device) {
    static Pool *all = [] {
        Pool *made = new Pool[MAX_DEVICES];
        for (int i = 0; i < MAX_DEVICES; ++i) made[i].device = i;
        return made;
    }();
    return all[device];
}

CUresult allocate(CUdeviceptr *pointer, size_t bytes) {
    std::lock_guard<std::mutex> held(driver_lock());
    int device = current_device();
    if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (!may_allocate(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t before = words(device).refused;
    uint64_t at = pool_of(device).allocate(bytes);
    words(device).refused = before + (at ? 0 : 1);  // attempts at slabs are not the caller's
    *pointer = at;
    return at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult release(CUdeviceptr pointer) {
    if (!pointer) return CUDA_SUCCESS;
    std::lock_guard<std::mutex> held(driver_lock());
    // Memory of cudaMalloc may be freed in this way too.
    return free_in_pool(pointer) == CUDA_SUCCESS ? CUDA_SUCCESS : free_plain(pointer);
}

}  // namespace

bool find_in_pools(uint64_t address, int *device) {
    for (*device = 0; *device < device_count(); ++*device) {
        const auto &parts = pool_of(*device).parts;
        auto part = parts.upper_bound(address);
        if (part == parts.begin()) continue;
        --part;
        if (address < part->first + part->second.bytes && part->second.taken) return true;
    }
    return false;
}

CUresult free_in_pool(uint64_t address) {
    for (int device = 0; device < device_count(); ++device)
        if (pool_of(device).release(address)) return CUDA_SUCCESS;
    return CUDA_ERROR_INVALID_VALUE;
}

void trim_at_synchronization(int device) { pool_of(device).trim(pool_of(device).threshold); }

extern "C" {

// comfy-aimdo puts a hook of its own into each of these four, so none may call another.
CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream) {
    return allocate(pointer, bytes);
}
CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream) {
    return allocate(pointer, bytes);
}
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream) { return release(pointer); }
CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream) { return release(pointer); }

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
    *pool = (CUmemoryPool)&pool_of(device);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    std::lock_guard<std::mutex> held(driver_lock());
    ((Pool *)pool)->trim(keep);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute which, void *value) {
    std::lock_guard<std::mutex> held(driver_lock());
    Pool *pool = (Pool *)handle;
    switch (which) {
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *(uint64_t *)value = pool->threshold; break;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: *(uint64_t *)value = pool->reserved; break;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: *(uint64_t *)value = pool->peak_reserved; break;
        case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *(uint64_t *)value = pool->used; break;
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *(uint64_t *)value = pool->peak_used; break;
        default: *(int *)value = 1;  // what may be used again: all of it
    }
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute which, void *value) {
    std::lock_guard<std::mutex> held(driver_lock());
    Pool *pool = (Pool *)handle;
    if (which == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) pool->threshold = *(uint64_t *)value;
    if (which == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) pool->peak_reserved = pool->reserved;
    if (which == CU_MEMPOOL_ATTR_USED_MEM_HIGH) pool->peak_used = pool->used;
    return CUDA_SUCCESS;
}
}
