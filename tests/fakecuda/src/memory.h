// What lies at a device address.
#pragma once
#include <cuda.h>

#include <cstdint>

struct Found {
    uint64_t base, bytes;
    int device;
};

// All of these with the driver's lock held.
bool find_memory(uint64_t address, Found *found);
bool find_in_pools(uint64_t address, Found *found);
CUresult free_plain(uint64_t address);
CUresult free_in_pool(uint64_t address);
void trim_at_synchronization(int device);
