/* What a process of ours is to survive, whoever started it: closed descriptors, a limit
 * of file sizes, a page that the disk cannot deliver. */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "process.h"
#include "talk.h"
#include "tamis.h"

/* A closed standard descriptor would be given to the next file that is opened, and
 * messages would go into a store. What takes its place fails when it is used. */
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
    /* Past a limit of file sizes, writing fails with EFBIG: that can be said and
     * cleaned up after, a signal can't. */
    signal(SIGXFSZ, SIG_IGN);
    /* A page that the disk cannot deliver is an answer, not the end. */
    tamis_guard_install(NULL);
}
