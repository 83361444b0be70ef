/* Prepares a process for closed descriptors, a limit of file sizes and unreadable
 * pages. */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "talk.h"

/* Otherwise the next opened file would take a closed standard descriptor, and messages
 * would go into a store. Using a descriptor opened here fails. */
static void plug_descriptors(void)
{
    static const int modes[] = {O_WRONLY, O_RDONLY, O_RDWR};
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) != fd)
            _exit(EXIT_IO);
}

void process_begin(const char *name)
{
    program = name;
    plug_descriptors();
    /* Beyond a limit of file sizes a write fails with EFBIG, which can be reported and
     * cleaned up. A signal cannot. */
    signal(SIGXFSZ, SIG_IGN);
    /* A page that the disk cannot deliver must not kill the process. */
    tamis_guard_install(NULL);
}
