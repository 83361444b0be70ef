/* Opens a list that may be a FIFO without a writer yet. */
#include <fcntl.h>
#include <sys/stat.h>

#include "keys.h"

int open_at_once(const char *path)
{
    struct stat st;
    bool is_fifo = stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
    int fd = open(path, O_RDONLY | O_CLOEXEC | (is_fifo ? O_NONBLOCK : 0));
    if (fd >= 0 && is_fifo)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}
