/* Both kernels as one library. */
#include "backward.c"
#include "forward.c"
