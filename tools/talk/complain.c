/* The one line on stderr that says why a command failed. */
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>

#include "screen.h"
#include "talk.h"

const char *program = "tamis";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool complained;
static _Thread_local bool complained_by_me;

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

void *need(void *pointer)
{
    if (pointer == NULL)
        exit(complain(EXIT_IO, "out of memory: %s", advice_memory()));
    return pointer;
}
