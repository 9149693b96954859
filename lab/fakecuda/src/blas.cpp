// The few functions of cuBLAS, cuBLASLt and cuFFT whose answers PyTorch reads. The generator gives
// each of the three libraries its own. Their headers need more of CUDA than the wheels have.
#include <cstdint>
#include <cstring>

#include "ledger.h"

namespace {

struct Heuristic {  // cublasLtMatmulHeuristicResult_t
    uint64_t algorithm[8];
    size_t workspace_bytes;
    int status;
    float waves;
    int reserved[4];
};

int handle_for(void **handle) {
    static char made;
    *handle = &made;
    return 0;
}

}  // namespace

extern "C" {
#if defined(FAKE_cublas)
int cublasCreate_v2(void **handle) { return handle_for(handle); }
int cublasGetMathMode(void *, int *mode) { return *mode = 0; }
int cublasGetPointerMode_v2(void *, int *mode) { return *mode = 0; }  // on the host
int cublasGetVersion_v2(void *, int *version) { *version = 130100; return 0; }
#elif defined(FAKE_cublasLt)
size_t cublasLtGetVersion(void) { return 130100; }
int cublasLtCreate(void **handle) { return handle_for(handle); }
int cublasLtMatmulAlgoGetHeuristic(void *, void *, void *, void *, void *, void *, void *,
                                   int asked, Heuristic *found, int *count) {
    *count = asked > 0;
    if (asked > 0) memset(found, 0, sizeof(*found));
    return 0;
}
#elif defined(FAKE_cufft)
int cufftCreate(int *plan) { *plan = 1; return 0; }
int cufftXtMakePlanMany(int, int, long long *, long long *, long long, long long, int, long long *,
                        long long, long long, int, long long, size_t *work, int) {
    *work = 0;
    return 0;
}
#endif
}
