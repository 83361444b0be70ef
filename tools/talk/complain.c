/* The one line on stderr that says why a command failed, and the one that says for whom
 * it waits. */
#include <math.h>
#include <pthread.h>
#include <stdarg.h>

#include "endings.h"
#include "screen.h"
#include "talk.h"

const char *program = "tamis";
double wait_limit = INFINITY;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool complained;
static _Thread_local bool complained_by_me;
static bool despite_signals;
static bool holds;
static char held[2048]; /* the line so far */
static char remarked[2048];

static void print_line(const char *first, const char *then)
{
    progress_clear();
    fprintf(stderr, "%s: ", program);
    print_message(stderr, first);
    if (then[0] != '\0')
        fputs("; ", stderr);
    print_message(stderr, then);
    fputc('\n', stderr);
    held[0] = '\0';
}

void complain_later(void)
{
    holds = true;
}

void complain_now(void)
{
    holds = false;
    if (held[0] != '\0')
        print_line(held, "");
}

void remark_now(void)
{
    if (!complained && remarked[0] != '\0')
        print_line(remarked, "");
}

void remark(const char *path, const char *what)
{
    if (remarked[0] == '\0')
        snprintf(remarked, sizeof(remarked), "%s: %s: the edit is done", path, what);
}

void say_line(const char *format, ...)
{
    char message[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    print_line(message, "");
}

int complain(int status, const char *format, ...)
{
    char message[2048];
    va_list args;
    size_t n = 0;
    /* The signal may have made the work fail: the status says which. */
    if (endings_came && !despite_signals)
        return status;
    va_start(args, format);
    if (strncmp(format, "%s:", 3) == 0 || strncmp(format, "%s/", 3) == 0) {
        const char *s = va_arg(args, const char *);
        for (; *s && n < sizeof(message) / 2; s++)
            n += (size_t)sprintf(message + n, "%c%s", *s, *s == '\\' ? "x5c" : "");
        format += 2;
    }
    vsnprintf(message + n, sizeof(message) - n, format, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    if (!complained && holds)
        strcpy(held, message);
    else if (!complained)
        print_line(message, "");
    else if (held[0] != '\0')
        print_line(held, message);
    if (!complained)
        complained = complained_by_me = true;
    pthread_mutex_unlock(&lock);
    return status;
}

void complain_despite_signals(void)
{
    despite_signals = true;
}

bool complained_here(void)
{
    return complained_by_me;
}

void *memory_or_exit(void *pointer)
{
    if (pointer == NULL)
        exit(complain(EXIT_IO, "out of memory: %s", advice_memory()));
    return pointer;
}

int wait_ends(void *ctx, uint64_t waited_ms, const struct tamis_diag *whom)
{
    enum { SILENT_MS = 1000 };
    static bool told;
    (void)ctx;
    if (endings_due() || (double)waited_ms >= wait_limit * 1000)
        return 1;
    if (waited_ms >= SILENT_MS && !told) {
        progress_wipe();
        fprintf(stderr, "%s: waiting: ", program);
        print_message(stderr, whom->what);
        fputc('\n', stderr);
    }
    told = waited_ms >= SILENT_MS; /* once for each wait */
    return 0;
}
