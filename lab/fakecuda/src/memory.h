// Memory by its address.
#pragma once
#include <cuda.h>

#include <cstdint>

// All of these with the driver's lock held. The first two tell whose memory an address is.
bool find_memory(uint64_t address, int *device);
bool find_in_pools(uint64_t address, int *device);
CUresult free_plain(uint64_t address);
CUresult free_in_pool(uint64_t address);
void trim_at_synchronization(int device);
