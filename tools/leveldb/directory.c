/* The directory of a database: is it LevelDB's, which database is it, and which tables
 * does it have?
 *
 * LevelDB gives a database no identity, and two databases that were filled alike are
 * equal byte for byte. The inode and the birth time of the file LOCK tell them apart:
 * LevelDB makes LOCK with the database and never replaces it, and a rename of the
 * directory keeps it. A copy has another LOCK, so it is another database; --force takes
 * it over without building a filter anew. */
#include <endian.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fill.h"

enum { ATTEMPTS = 8 };

/* ---- which database ---- */

/* Without a birth time, take the last change: no process writes to LOCK. */
static bool born(const char *path, uint64_t identity[3])
{
    struct statx st;
    if (statx(AT_FDCWD, path, 0, STATX_INO | STATX_BTIME | STATX_MTIME, &st) != 0)
        return false;
    const struct statx_timestamp *t =
        st.stx_mask & STATX_BTIME ? &st.stx_btime : &st.stx_mtime;
    identity[0] = htole64(st.stx_ino);
    identity[1] = htole64((uint64_t)t->tv_sec);
    identity[2] = htole64(t->tv_nsec);
    return true;
}

int database_tag(const char *database, char tag[MIRROR_TAG_BYTES])
{
    uint64_t identity[3];
    char *lock = NULL;
    if (asprintf(&lock, "%s/LOCK", database) < 0)
        lock = NULL;
    /* A copy may lack it. */
    bool known = born(memory_or_exit(lock), identity) || born(database, identity);
    free(lock);
    if (!known)
        return complain_errno(errno, database, "reading when it was made");
    tamis_mirror_tag(tag, "leveldb", identity, sizeof(identity));
    return EXIT_DONE;
}

/* ---- which tables ---- */

static int list_error(const char *database, enum ldb_result result, const char *why)
{
    switch (result) {
    case LDB_NONE:
        return complain(EXIT_DAMAGE, "%s: no LevelDB database: %s", database,
                        why[0] ? "its CURRENT names a missing file"
                               : "it has no CURRENT");
    case LDB_DAMAGED:
        return complain(
            EXIT_DAMAGE,
            "%s: damaged: %s: let LevelDB repair the database, or restore it", database,
            why);
    case LDB_GOOD:
    case LDB_FAILED:
    case LDB_STOPPED:
        break;
    }
    return complain(EXIT_IO, "%s: %s", database, why);
}

int read_list(const char *database, struct ldb_list *list)
{
    char why[LDB_WHY_BYTES];
    enum ldb_result result = LDB_NONE;
    *list = (struct ldb_list){.n = 0};
    int status = bridge_check_database(database, false);
    if (status != EXIT_DONE)
        return status;
    /* CURRENT may name a new MANIFEST just as the older one is deleted. */
    for (int i = 0; i < ATTEMPTS && result == LDB_NONE; i++) {
        result = ldb_list_read(database, list, why);
        if (result == LDB_NONE && !why[0])
            break;
    }
    if (result != LDB_GOOD)
        return list_error(database, result, why);
    if (strcmp(list->comparator, "leveldb.BytewiseComparator") != 0)
        return complain(EXIT_DAMAGE,
                        "%s: its comparator is %s, under which different bytes may be "
                        "the same key: only leveldb.BytewiseComparator will do",
                        database, list->comparator);
    return EXIT_DONE;
}
