/* Reports a failed call: the file, the fault, its offset, the remedy. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "endings.h"
#include "talk.h"
#include "tamis.h"

int complain_error(int error, const struct tamis_diag *diag, const char *file,
                   const char *advice)
{
    bool told = diag != NULL && diag->code != 0;
    const char *what = told && diag->what[0] ? diag->what : tamis_strerror(error);
    char *name, offset[48] = "";

    if (error == TAMIS_ERR_BUSY && endings_came) /* which ended the wait */
        return EXIT_BUSY;
    /* A diag "(descriptor)" knows less than we do. */
    if (told && diag->file[0] && diag->file[0] != '(')
        file = diag->file;
    if (advice == NULL && error == TAMIS_ERR_DAMAGED)
        advice = store_advice(error, file); /* of a store, not of a filter */
    /* What is of the first draft says itself what to do. */
    if (advice == NULL && strstr(what, "first draft") == NULL)
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
