/* How a process begins, prepared for closed descriptors, a limit of file sizes and
 * unreadable pages; and how it ends. Standard output may be closed or full: a failed
 * write is a failure of the command. */
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

/* ---- the end: standard output ---- */

static bool is_done; /* the work; only its report is left */

void work_is_done(void)
{
    is_done = true;
}

/* os_errno is 0 if the reason is lost: stdio remembers only that a write failed. */
static int output_failed(int os_errno)
{
    if (is_done)
        return complain(EXIT_IO,
                        "standard output: writing failed%s%s: the work is done, only "
                        "its report is lost",
                        os_errno ? ": " : "", os_errno ? strerror(os_errno) : "");
    if (os_errno == 0)
        return complain(EXIT_IO,
                        "standard output: writing failed: check where it goes");
    if (os_errno == EBADF)
        return complain(EXIT_IO,
                        "standard output: writing failed: %s: it is closed, "
                        "send it to a file",
                        strerror(os_errno));
    return complain_errno(os_errno, "standard output", "writing failed");
}

bool output_works(void)
{
    bool failed = ferror(stdout) != 0;
    errno = 0;
    if (fflush(stdout) == 0 && !failed)
        return true;
    output_failed(errno);
    return false;
}

/* Bytes that the buffer cannot hold are written at once, so fwrite() may fail. */
int print_whole(const char *bytes, size_t n)
{
    errno = 0;
    if (fwrite(bytes, 1, n, stdout) != n || fflush(stdout) != 0)
        return output_failed(errno);
    return EXIT_DONE;
}

int finish_output(int status)
{
    bool failed = ferror(stdout) != 0;
    complain_now();
    errno = 0;
    if (fflush(stdout) != 0 || failed)
        return output_failed(errno);
    /* Network file systems may report a full disk only here. */
    if (fclose(stdout) != 0 && errno != EBADF)
        return output_failed(errno);
    remark_now();
    return status;
}
