// Device memory as the driver gives it: plain allocations, and pages mapped into reservations.
#include <cuda.h>

#include <map>

#include "context.h"
#include "ledger.h"
#include "memory.h"
#include "space.h"

namespace {

struct Block {
    uint64_t bytes, charged;
    int device;
};

// Physical memory: charged until it is both released and mapped nowhere.
struct Handle {
    uint64_t bytes;
    int device;
    bool released;
    int mappings;
};

struct Mapping {
    uint64_t bytes;
    Handle *handle;
};

using Blocks = std::map<uint64_t, Block>;
using Mappings = std::map<uint64_t, Mapping>;

Blocks &blocks() { static auto *all = new Blocks(); return *all; }
Mappings &mappings() { static auto *all = new Mappings(); return *all; }
std::map<uint64_t, uint64_t> &reservations() {
    static auto *all = new std::map<uint64_t, uint64_t>();
    return *all;
}

// The entry of an address-ordered map that holds `address`, or its end.
template <class Map>
typename Map::iterator holding(Map &map, uint64_t address) {
    auto found = map.upper_bound(address);
    if (found == map.begin()) return map.end();
    --found;
    return address < found->first + found->second.bytes ? found : map.end();
}

void drop(Handle *handle) {
    if (!handle->released || handle->mappings > 0) return;
    give(handle->device, handle->bytes, &DeviceWords::handle_bytes);
    words(handle->device).frees += 1;
    delete handle;
}

}  // namespace

bool find_memory(uint64_t address, int *device) {
    auto block = holding(blocks(), address);
    if (block != blocks().end()) {
        *device = block->second.device;
        return true;
    }
    auto mapping = holding(mappings(), address);
    if (mapping != mappings().end()) {
        *device = mapping->second.handle->device;
        return true;
    }
    return find_in_pools(address, device);
}

CUresult free_plain(uint64_t address) {
    auto found = blocks().find(address);
    if (found == blocks().end()) return CUDA_ERROR_INVALID_VALUE;
    decommit(address, round_up(found->second.charged, 4096));
    give(found->second.device, found->second.charged, &DeviceWords::malloc_bytes);
    words(found->second.device).frees += 1;
    blocks().erase(found);
    return CUDA_SUCCESS;
}

extern "C" {

CUresult cuMemAlloc(CUdeviceptr *pointer, size_t bytes) {
    std::lock_guard<std::mutex> held(driver_lock());
    int device = current_device();
    if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (!pointer || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    // Small allocations share a page in the real driver; here they pay for what they ask.
    uint64_t charged = round_up(bytes, bytes > PAGE / 2 ? PAGE : 512);
    if (!may_allocate(device, charged)) return CUDA_ERROR_OUT_OF_MEMORY;
    if (!take(device, charged, &DeviceWords::malloc_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t at = new_addresses(round_up(charged, PAGE));
    if (!at || !commit(at, round_up(charged, 4096))) {
        give(device, charged, &DeviceWords::malloc_bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    blocks()[at] = {bytes, charged, device};
    *pointer = at;
    return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr pointer) {
    if (!pointer) return CUDA_SUCCESS;
    std::lock_guard<std::mutex> held(driver_lock());
    return free_plain(pointer) == CUDA_SUCCESS ? CUDA_SUCCESS : free_in_pool(pointer);
}

CUresult cuMemGetInfo(size_t *free, size_t *total) {
    std::lock_guard<std::mutex> held(driver_lock());
    int device = current_device();
    if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (free) *free = free_bytes(device);
    if (total) *total = words(device).capacity_bytes;
    return CUDA_SUCCESS;
}

// -- pages mapped into reserved addresses --------------------------------------------------------

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *,
                                       CUmemAllocationGranularity_flags) {
    *bytes = PAGE;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t bytes, size_t alignment, CUdeviceptr,
                             unsigned long long) {
    if (!bytes || bytes % PAGE) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard<std::mutex> held(driver_lock());
    *pointer = new_addresses(bytes, alignment > PAGE ? alignment : PAGE);
    if (!*pointer) return CUDA_ERROR_OUT_OF_MEMORY;
    reservations()[*pointer] = bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t) {
    std::lock_guard<std::mutex> held(driver_lock());
    return reservations().erase(pointer) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *made, size_t bytes,
                     const CUmemAllocationProp *prop, unsigned long long) {
    if (!bytes || bytes % PAGE || !prop) return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    std::lock_guard<std::mutex> held(driver_lock());
    int device = prop->location.id;
    if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    if (!may_allocate(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    if (!take(device, bytes, &DeviceWords::handle_bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    *made = (CUmemGenericAllocationHandle) new Handle{bytes, device, false, 0};
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle made) {
    std::lock_guard<std::mutex> held(driver_lock());
    Handle *handle = (Handle *)made;
    handle->released = true;
    drop(handle);
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t, CUmemGenericAllocationHandle made,
                  unsigned long long) {
    std::lock_guard<std::mutex> held(driver_lock());
    Handle *handle = (Handle *)made;
    if (!is_device_address(pointer) || bytes > handle->bytes) return CUDA_ERROR_INVALID_VALUE;
    if (holding(mappings(), pointer) != mappings().end()) return CUDA_ERROR_ALREADY_MAPPED;
    mappings()[pointer] = {bytes, handle};
    handle->mappings += 1;
    DeviceWords &own = words(handle->device);
    own.maps += 1;
    own.bytes_mapped += bytes;
    own.mapped_bytes += bytes;
    if (own.mapped_bytes > own.peak_mapped_bytes) own.peak_mapped_bytes = own.mapped_bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *, size_t) {
    return commit(pointer, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
    std::lock_guard<std::mutex> held(driver_lock());
    auto first = mappings().lower_bound(pointer);
    auto end = mappings().lower_bound(pointer + bytes);
    if (first == end) return CUDA_ERROR_INVALID_VALUE;
    for (auto one = first; one != end; one = mappings().erase(one)) {
        Handle *handle = one->second.handle;
        DeviceWords &own = words(handle->device);
        own.unmaps += 1;
        own.bytes_unmapped += one->second.bytes;
        own.mapped_bytes -= one->second.bytes;
        handle->mappings -= 1;
        drop(handle);
    }
    decommit(pointer, bytes);
    return CUDA_SUCCESS;
}
}
