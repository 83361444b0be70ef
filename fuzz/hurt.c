/* hurt FILE OFFSET=HEX...: puts bytes into a filter file and makes the checksums of its
 * header good again, so that what a test has done to it gets past them. */
#include "fuzz/fuzz.h"

static int usage(void)
{
    fprintf(stderr, "usage: hurt FILE OFFSET=HEX...\n");
    return 2;
}

/* One change; false if it makes no sense. */
static bool apply(uint8_t *bytes, size_t n, const char *change)
{
    char *end;
    unsigned long at = strtoul(change, &end, 10);
    unsigned byte;
    int used;
    if (*end++ != '=')
        return false;
    for (; *end; end += 2) {
        if (at >= n || sscanf(end, "%2x%n", &byte, &used) != 1 || used != 2)
            return false;
        bytes[at++] = (uint8_t)byte;
    }
    return true;
}

int main(int argc, char **argv)
{
    size_t n;
    if (argc < 3 || access(argv[1], R_OK | W_OK) != 0)
        return usage();
    uint8_t *bytes = file_bytes(argv[1], &n);
    for (int i = 2; i < argc; i++)
        if (!apply(bytes, n, argv[i]))
            return usage();
    reseal_header(bytes, n);
    file_poke(argv[1], 0, bytes, n);
    free(bytes);
    return 0;
}
