/* For tests of backup: of a store to "b", and what is told of it. */
#ifndef TAMIS_TESTS_BACKUP_SUPPORT_H
#define TAMIS_TESTS_BACKUP_SUPPORT_H

#include "tests/support/repair_support.h"
#include "tests/support/still_disk.h"

static struct tamis_backup_report backed_up;

static UNUSED int backup_code(struct tamis_store *s, tamis_repair_fn *fn)
{
    const struct tamis_backup_options opt = {.size = sizeof opt, .found = fn};
    struct tamis_diag diag = {0};
    seen.n = 0;
    int rc = tamis_store_backup(s, path_of("b"), &opt, &backed_up, &diag);
    if (rc)
        print_message("%s: %s\n", diag.file, diag.what);
    return rc;
}

static UNUSED void backup(struct tamis_store *s)
{
    OK(backup_code(s, see));
}

#endif
