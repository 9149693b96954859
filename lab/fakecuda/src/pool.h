// Stream-ordered allocation (cudaMallocAsync). The rules of the real pool belong to NVIDIA's driver;
// this is a model of them: slabs of 32 MiB, the best fit among free blocks, neighbours merge, whole
// slabs go back when trimmed or when the memory is wanted. Where enough is free but in pieces, whole
// pages of it are mapped anew in one place, before anything more is taken (as NVIDIA describes it:
// "Using the NVIDIA CUDA Stream-Ordered Memory Allocator, Part 1", developer blog, 2021).
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "ledger.h"
#include "memory.h"
#include "space.h"

constexpr uint64_t SLAB = 32u << 20, UNIT = 512;

struct Part {
    uint64_t bytes, slab;
    bool taken;
};

struct Pool {
    int device;
    uint64_t threshold = 0, reserved = 0, used = 0, peak_reserved = 0, peak_used = 0;
    std::map<uint64_t, Part> parts;                    // by address; they fill the slabs
    std::set<std::pair<uint64_t, uint64_t>> free;      // (bytes, address) of those not taken
    std::map<uint64_t, uint64_t> slabs;                // address -> bytes

    void add_free(uint64_t at, Part part) {
        part.taken = false;
        parts[at] = part;
        free.insert({part.bytes, at});
    }

    void join(uint64_t at) {  // with the free neighbours in the same slab
        auto here = parts.find(at);
        auto next = std::next(here);
        if (next != parts.end() && !next->second.taken && next->second.slab == here->second.slab) {
            free.erase({next->second.bytes, next->first});
            here->second.bytes += next->second.bytes;
            parts.erase(next);
        }
        if (here != parts.begin()) {
            auto before = std::prev(here);
            if (!before->second.taken && before->second.slab == here->second.slab) {
                free.erase({before->second.bytes, before->first});
                before->second.bytes += here->second.bytes;
                parts.erase(here);
                here = before;
            }
        }
        free.insert({here->second.bytes, here->first});
    }

    bool add_slab(uint64_t bytes) {
        if (!take(device, bytes, &DeviceWords::pool_reserved_bytes)) return false;
        uint64_t at = new_addresses(bytes);
        if (!at || !commit(at, bytes)) {
            give(device, bytes, &DeviceWords::pool_reserved_bytes);
            return false;
        }
        slabs[at] = bytes;
        reserved += bytes;
        peak_reserved = std::max(peak_reserved, reserved);
        add_free(at, {bytes, at, false});
        return true;
    }

    // Give whole free slabs back until no more than `keep` bytes are reserved.
    void trim(uint64_t keep) {
        for (auto slab = slabs.begin(); slab != slabs.end() && reserved > keep;) {
            auto part = parts.find(slab->first);
            if (part->second.taken || part->second.bytes != slab->second) {
                ++slab;
                continue;
            }
            free.erase({part->second.bytes, part->first});
            parts.erase(part);
            decommit(slab->first, slab->second);
            give(device, slab->second, &DeviceWords::pool_reserved_bytes);
            reserved -= slab->second;
            slab = slabs.erase(slab);
        }
    }

    static uint64_t first_page(uint64_t at) { return round_up(at, PAGE); }
    static uint64_t whole_pages(uint64_t at, uint64_t bytes) {
        uint64_t begin = first_page(at), end = (at + bytes) / PAGE * PAGE;
        return end > begin ? end - begin : 0;
    }

    uint64_t free_pages() const {
        uint64_t all = 0;
        for (auto &[bytes, at] : free) all += whole_pages(at, bytes);
        return all;
    }

    // Take `bytes` of whole pages out of the free part at `at`, whose slab becomes two.
    void take_pages(uint64_t at, uint64_t bytes) {
        Part part = parts[at];
        uint64_t begin = first_page(at), end = begin + bytes, slab = part.slab;
        uint64_t slab_end = slab + slabs[slab];
        free.erase({part.bytes, at});
        parts.erase(at);
        slabs.erase(slab);
        if (begin > slab) slabs[slab] = begin - slab;
        if (slab_end > end) slabs[end] = slab_end - end;
        for (auto it = parts.lower_bound(end); it != parts.end() && it->first < slab_end; ++it)
            it->second.slab = end;
        if (begin > at) add_free(at, {begin - at, slab, false});
        if (at + part.bytes > end) add_free(end, {at + part.bytes - end, end, false});
        decommit(begin, bytes);
        give(device, bytes, &DeviceWords::pool_reserved_bytes);
        reserved -= bytes;
    }

    // The same from one free part after the other, the largest first, until there are that many.
    void gather_pages(uint64_t wanted) {
        while (wanted) {
            auto best = std::find_if(free.rbegin(), free.rend(), [](auto &one) {
                return whole_pages(one.second, one.first) > 0; });
            if (best == free.rend()) return;
            uint64_t at = best->second;
            uint64_t bytes = std::min(wanted, whole_pages(at, best->first));
            take_pages(at, bytes);
            wanted -= bytes;
        }
    }

    bool grow(uint64_t bytes) {
        uint64_t pages = round_up(bytes, PAGE);
        if (free_pages() >= pages) {
            gather_pages(pages);
            if (add_slab(pages)) return true;
        }
        if (add_slab(round_up(bytes, SLAB))) return true;
        trim(0);
        if (add_slab(round_up(bytes, SLAB)) || add_slab(pages)) return true;
        gather_pages(UINT64_MAX);
        return add_slab(pages);
    }

    uint64_t allocate(uint64_t asked) {
        uint64_t bytes = round_up(std::max<uint64_t>(asked, 1), UNIT);
        auto fit = free.lower_bound({bytes, 0});
        if (fit == free.end()) {
            if (!grow(bytes)) return 0;
            fit = free.lower_bound({bytes, 0});
        }
        uint64_t at = fit->second;
        Part &part = parts[at];
        free.erase(fit);
        if (part.bytes > bytes) add_free(at + bytes, {part.bytes - bytes, part.slab, false});
        part.bytes = bytes;
        part.taken = true;
        used += bytes;
        peak_used = std::max(peak_used, used);
        words(device).pool_used_bytes += bytes;
        return at;
    }

    bool release(uint64_t at) {
        auto part = parts.find(at);
        if (part == parts.end() || !part->second.taken) return false;
        part->second.taken = false;
        used -= part->second.bytes;
        words(device).pool_used_bytes -= part->second.bytes;
        words(device).frees += 1;
        join(at);
        return true;
    }
};
