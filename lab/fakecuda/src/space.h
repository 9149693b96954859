// The devices' address space: host memory that costs nothing until something is written to it.
#pragma once
#include <cstdint>

constexpr uint64_t PAGE = 2u << 20;  // the driver hands out physical memory in pages of 2 MiB

inline uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// The next addresses. They ascend and never come again: PyTorch's choice among equal blocks goes
// by address, and a stale pointer must not find somebody else's data.
uint64_t new_addresses(uint64_t bytes, uint64_t alignment = PAGE);
bool is_device_address(uint64_t address);
// Let addresses be read and written, or take that and their contents away.
bool commit(uint64_t address, uint64_t bytes);
void decommit(uint64_t address, uint64_t bytes);
