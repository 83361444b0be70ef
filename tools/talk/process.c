/* Prepares a process for closed descriptors, a limit of file sizes and unreadable
 * pages. */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "talk.h"

void process_begin(const char *name)
{
    static const int modes[] = {O_WRONLY, O_RDONLY, O_RDWR};
    program = name;
    /* Otherwise the next opened file would take a closed standard descriptor, and
     * messages would go into a store. Using a descriptor opened here fails. */
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) != fd)
            _exit(EXIT_IO);
    /* Beyond a limit of file sizes a write fails with EFBIG, which can be reported and
     * cleaned up. A signal cannot. */
    signal(SIGXFSZ, SIG_IGN);
    /* A page that the disk cannot deliver must not kill the process. */
    tamis_guard_install(NULL);
}
