/* Messages and exit statuses: one line on stderr that says which file, what is wrong
 * with it, where, and what would work. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tool.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool complained;
static _Thread_local bool complained_by_me;
static bool is_done; /* what stdout is to report */

int complain(int status, const char *format, ...)
{
    char message[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    if (!complained) {
        complained = complained_by_me = true;
        progress_clear();
        fprintf(stderr, "%s: ", program);
        print_message(stderr, message);
        fputc('\n', stderr);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

bool complained_here(void)
{
    return complained_by_me;
}

int status_of_error(int error)
{
    switch (error) {
    case 0:
        return EXIT_DONE;
    case TAMIS_ERR_NOT_TAMIS:
    case TAMIS_ERR_VERSION:
    case TAMIS_ERR_DAMAGED:
    case TAMIS_ERR_MISMATCH:
        return EXIT_DAMAGE;
    case TAMIS_ERR_NO_SEGMENT:
    case TAMIS_ERR_NO_STORE:
        return EXIT_NONE;
    case TAMIS_ERR_BUSY:
        return EXIT_BUSY;
    case TAMIS_ERR_EXISTS:
    case TAMIS_ERR_SEALED:
    case TAMIS_ERR_RANGE:
    case TAMIS_ERR_TOO_LARGE:
    case TAMIS_ERR_UNFIT:
        return EXIT_USAGE;
    default:
        return EXIT_IO;
    }
}

int complain_error(int error, const struct tamis_diag *diag, const char *file,
                   const char *advice)
{
    bool told = diag != NULL && diag->code != 0;
    const char *what = told && diag->what[0] ? diag->what : tamis_strerror(error);
    char *name, offset[48] = "";

    /* A diag "(descriptor)" knows less than we do. */
    if (told && diag->file[0] && diag->file[0] != '(')
        file = diag->file;
    if (advice == NULL && error == TAMIS_ERR_DAMAGED)
        advice = store_advice(error, file); /* of a store, not of a filter */
    if (advice == NULL)
        advice = usual_advice(error);
    if (advice != NULL && advice[0] == '\0')
        advice = NULL;
    if (told && diag->has_offset)
        snprintf(offset, sizeof(offset), " (offset %llu)",
                 (unsigned long long)diag->offset);
    name = escape(file, strlen(file));
    complain(0, "%s: %s%s%s%s", name, what, offset, advice ? ": " : "",
             advice ? advice : "");
    free(name);
    return status_of_error(error);
}

int complain_errno(int os_errno, const char *file, const char *doing)
{
    const char *advice = usual_advice(os_errno);
    char *name = escape(file, strlen(file));

    complain(0, "%s: %s: %s%s%s", name, doing, strerror(os_errno), advice ? ": " : "",
             advice ? advice : "");
    free(name);
    return EXIT_IO;
}

int complain_add(int error, const char *file)
{
    const char *spool = getenv("TMPDIR");
    char *name;

    if (error <= 0 || error == ENOMEM)
        return complain_error(error, NULL, file, NULL);
    if (spool == NULL || spool[0] == '\0')
        spool = "/tmp";
    name = escape(spool, strlen(spool));
    complain(0,
             "%s: spooling hashes here failed: %s: set TMPDIR to a directory that has "
             "room, 8 bytes per key",
             name, strerror(error));
    free(name);
    return EXIT_IO;
}

void usage_error(const char *format, ...)
{
    char message[1536];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    complain(0, "%s: %s: see 'tamis help %s'", this_command->name, message,
             this_command->name);
    exit(EXIT_USAGE);
}

void work_is_done(void)
{
    is_done = true;
}

/* The reason may be gone by now: stdio remembers only that a write failed. */
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

/* Bytes that the buffer cannot hold are written at once, and fail here. */
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

    errno = 0;
    if (fflush(stdout) != 0 || failed)
        return output_failed(errno);
    /* Network file systems may report a full disk only here. */
    if (fclose(stdout) != 0 && errno != EBADF)
        return output_failed(errno);
    return status;
}

void *need(void *pointer)
{
    if (pointer == NULL)
        exit(complain(EXIT_IO, "out of memory: %s", advice_memory()));
    return pointer;
}
