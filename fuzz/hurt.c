/* hurt FILE OFFSET=HEX...: puts bytes into a filter file and makes the checksums of its
 * header good again, so that what a test has done to it gets past them. */
#include "fuzz/fuzz.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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
    struct stat st;
    int fd = argc < 3 ? -1 : open(argv[1], O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return usage();
    size_t n = (size_t)st.st_size;
    uint8_t *bytes = malloc(n + 1);
    if (!bytes || pread(fd, bytes, n, 0) != (ssize_t)n)
        return usage();
    for (int i = 2; i < argc; i++)
        if (!apply(bytes, n, argv[i]))
            return usage();
    reseal_header(bytes, n);
    bool done = pwrite(fd, bytes, n, 0) == (ssize_t)n && close(fd) == 0;
    free(bytes);
    return done ? 0 : 4;
}
