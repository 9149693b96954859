// cuSOLVER: how much workspace a factorisation wants. Nothing, and not what lay there before: PyTorch
// would take that for a size.
#define SIZE_IN_SIXTH_PLACE(name)                                             \
    extern "C" int name(void *, long, long, void *, long, int *elements) {    \
        if (elements) *elements = 0;                                          \
        return 0;                                                             \
    }
SIZE_IN_SIXTH_PLACE(cusolverDnSgetrf_bufferSize)
SIZE_IN_SIXTH_PLACE(cusolverDnDgetrf_bufferSize)
SIZE_IN_SIXTH_PLACE(cusolverDnSpotrf_bufferSize)
SIZE_IN_SIXTH_PLACE(cusolverDnDpotrf_bufferSize)
SIZE_IN_SIXTH_PLACE(cusolverDnSgeqrf_bufferSize)
SIZE_IN_SIXTH_PLACE(cusolverDnDgeqrf_bufferSize)
