#include "space.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

namespace {

struct Space {
    uint64_t begin = 0, next = 0, end = 0;

    Space() {
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        for (uint64_t size = 64ull << 40; size >= 1ull << 36; size /= 2) {
            void *at = mmap(nullptr, size, PROT_NONE, flags, -1, 0);
            if (at == MAP_FAILED) continue;
            madvise(at, size, MADV_NOHUGEPAGE);  // else one written byte would cost 2 MiB
            madvise(at, size, MADV_DONTDUMP);
            begin = (uint64_t)at;
            next = round_up(begin, PAGE);
            end = begin + size;
            return;
        }
        fprintf(stderr, "fakecuda: this machine refuses 64 GiB of address space\n");
        abort();
    }
};

Space &space() {
    static Space *made = new Space();
    return *made;
}

}  // namespace

uint64_t new_addresses(uint64_t bytes, uint64_t alignment) {
    Space &all = space();
    uint64_t at = round_up(all.next, alignment);
    if (at + bytes > all.end) return 0;
    all.next = at + bytes;
    return at;
}

bool is_device_address(uint64_t address) {
    return address >= space().begin && address < space().end;
}

bool commit(uint64_t address, uint64_t bytes) {
    return mprotect((void *)address, bytes, PROT_READ | PROT_WRITE) == 0;
}

void decommit(uint64_t address, uint64_t bytes) {
    madvise((void *)address, bytes, MADV_DONTNEED);
    mprotect((void *)address, bytes, PROT_NONE);
}
