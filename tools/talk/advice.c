/* How a command ends after an error of the library or of the system: its exit status,
 * and advice, the last part of a message, chosen by the error and by what is there. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "talk.h"

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

bool is_wrong_type(int error)
{
    return error == EINVAL || error == EISDIR || error == ELOOP || error == ENXIO;
}

int status_unread(int error)
{
    return error == ENOENT || is_wrong_type(error) ? EXIT_DAMAGE
                                                   : status_of_error(error);
}

/* A shortage may come from a limit of this process, not from the machine. */
static bool is_limited(int resource)
{
    struct rlimit limit;
    return getrlimit((__rlimit_resource_t)resource, &limit) == 0 &&
           limit.rlim_cur != RLIM_INFINITY;
}

const char *advice_memory(void)
{
    return is_limited(RLIMIT_AS)     ? "raise the limit of memory (ulimit -v)"
           : is_limited(RLIMIT_DATA) ? "raise the limit of memory (ulimit -d)"
                                     : "free some memory";
}

const char advice_flipped[] = "test this machine's memory, then run it again";

static const struct {
    int error;
    const char *advice;
} usual[] = {
    {TAMIS_ERR_NOT_TAMIS,
     "name a store of 'tamis init' or a file of 'tamis file build'"},
    {TAMIS_ERR_VERSION, "read it with the tamis that wrote it, or a newer one; if none "
                        "did, build it anew from its keys"},
    {TAMIS_ERR_DAMAGED, "build it anew from its keys"},
    {TAMIS_ERR_MISMATCH, "name the filter that belongs here"},
    {TAMIS_ERR_NO_SEGMENT, "'tamis ls' lists the segments"},
    {TAMIS_ERR_NO_STORE,
     "'tamis init STORE' makes one, 'tamis repair STORE' rebuilds a "
     "lost catalog"},
    {TAMIS_ERR_EXISTS, "take another name or remove the old one first"},
    {TAMIS_ERR_BUSY, "try again when it is done"},
    {TAMIS_ERR_SEALED, "put new keys into another segment"},
    {TAMIS_ERR_NETWORK, "use a local file system"},
    {TAMIS_ERR_READ_ONLY,
     "run it as a user who may write to its catalog.lmdb, on a file system that is not "
     "read-only"},
    {EROFS, "use a place that you may write to"},
    {EACCES, "run it as a user with permission"},
    {EPERM, "run it as a user with permission"},
    {TAMIS_ERR_POISONED, "run it again"},
    {TAMIS_ERR_REPLACED,
     "end every process that has it open, then look what 'tamis ls' says"},
    {TAMIS_ERR_TOO_LARGE, "split the segment, or repack the store"},
    {TAMIS_ERR_CATALOG, "'tamis repair STORE --dry-run' says whether it is damaged"},
    {ENOENT, "check the path"},
    {ENOTDIR, "check the path"},
    {EISDIR, "name a file"},
    {ELOOP, "put the file itself in the place of the symbolic link"},
    {EINVAL, "name a regular file"},
    {ENOSPC, "free some space"},
    {EDQUOT, "free some space"},
    /* LMDB gives it for a short write, too. */
    {EIO, "see whether the disk is full or fails (df, dmesg), or raise ulimit -f"},
    {EMFILE, "raise the limit of open files (ulimit -n)"},
};

const char *usual_advice(int error)
{
    if (error == ENOMEM)
        return advice_memory();
    if (error == EFBIG)
        return is_limited(RLIMIT_FSIZE)
                   ? "raise the limit of file sizes (ulimit -f)"
                   : "use a file system that takes larger files, or split the segment";
    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
        if (usual[i].error == error)
            return usual[i].advice;
    return NULL;
}

const char advice_pack[] =
    "put the pack's files back, or use the tamis that wrote them, or move them away: "
    "then 'tamis repair STORE --confirm --force' takes its segments off the list, "
    "to be built anew";

const char *pack_advice(int error, const char *what)
{
    bool pack =
        strncmp(what, "this pack", 9) == 0 || strncmp(what, "the pack of", 11) == 0;
    bool dead = strstr(what, ".dead file") || strstr(what, "its tombstones are");
    if (status_unread(error) != EXIT_DAMAGE || !(pack || dead))
        return NULL;
    return pack ? advice_pack
           : error == TAMIS_ERR_VERSION
               ? "'tamis repair STORE --confirm' makes another, once it is moved away"
               : "'tamis repair STORE --confirm' makes another";
}

const char *advice_unread(int error, const char *what)
{
    const char *of_pack = pack_advice(error, what);
    if (of_pack != NULL)
        return of_pack;
    if (error == TAMIS_ERR_MISMATCH || is_wrong_type(error))
        return "put its own file in its place, or build the segment anew from its keys";
    return error == ENOENT || error == TAMIS_ERR_NOT_TAMIS || error == TAMIS_ERR_DAMAGED
               ? "build the segment anew from its keys"
               : usual_advice(error);
}

const char *advice_list(int error)
{
    switch (error) {
    case ENOENT:
        return "no answer rests on it: put its file back, or 'tamis repair' records "
               "the segment without it";
    case TAMIS_ERR_NOT_TAMIS:
    case TAMIS_ERR_DAMAGED:
    case TAMIS_ERR_MISMATCH:
        return "no answer rests on it; 'tamis repair' sets the list aside";
    default:
        return advice_unread(error, "");
    }
}

/* Does the name exist with another file type? */
static bool is_strange(int dir, const char *name, mode_t kind)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           (st.st_mode & S_IFMT) != kind;
}

/* Repair rebuilds a catalog from filters: is there a file that may be one? */
static bool has_filters(int dir)
{
    int fd = openat(dir, "filters", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    bool found = false;
    while (d != NULL && !found && (entry = readdir(d)) != NULL) {
        const char *ending = strrchr(entry->d_name, '.');
        found = ending != NULL && strcmp(ending, ".tamis") == 0;
    }
    if (d != NULL)
        closedir(d);
    return found;
}

/* An interrupted 'tamis init' leaves no filter either, and the next one continues it;
 * but it takes no directory with anything else in it. */
static const char *lost_advice(int dir)
{
    if (has_filters(dir))
        return "'tamis repair STORE' makes its catalog anew";
    if (faccessat(dir, "quarantine", F_OK, 0) == 0)
        return "put catalog.lmdb back from a backup, or move a filter from quarantine/ "
               "to filters/, then 'tamis repair STORE' makes the catalog of its store";
    if (faccessat(dir, "filters", F_OK, 0) == 0)
        return "put both back from a backup, or 'tamis init' makes a new store";
    return NULL;
}

const char *store_advice(int error, const char *path)
{
    const char *advice = NULL;
    if (error == TAMIS_ERR_VERSION)
        return "read it with the tamis that wrote it, or a newer one; if none did, "
               "move catalog.lmdb away: then 'tamis repair STORE' makes another";
    if (error != TAMIS_ERR_NOT_TAMIS && error != TAMIS_ERR_NO_STORE &&
        error != TAMIS_ERR_DAMAGED && error != TAMIS_ERR_CATALOG && error != ENOTDIR)
        return NULL;
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return errno == ENOTDIR && error == TAMIS_ERR_NOT_TAMIS
                   ? "name a store's directory; 'tamis file probe' and its like take "
                     "one file"
                   : NULL;
    /* Repair does not touch another kind of file. */
    if (is_strange(dir, "filters", S_IFDIR))
        advice = "move away what is in its place, then put the directory filters/ "
                 "back, or 'tamis repair STORE' makes an empty one";
    else if (error == ENOTDIR)
        advice = is_strange(dir, "quarantine", S_IFDIR)
                     ? "move away what is in its place, then run it again"
                     : NULL;
    else if (is_strange(dir, "catalog.lmdb", S_IFREG))
        advice = "move it away, then 'tamis repair STORE' makes one";
    else if (is_strange(dir, "catalog.lmdb-lock", S_IFREG))
        advice = "move it away";
    else if (error == TAMIS_ERR_DAMAGED && faccessat(dir, "filters", F_OK, 0) != 0 &&
             faccessat(dir, "catalog.lmdb", F_OK, 0) == 0)
        advice = "put it back, or 'tamis repair STORE' makes an empty one";
    else if (error == TAMIS_ERR_NO_STORE)
        advice = lost_advice(dir);
    else
        advice = "'tamis repair STORE' makes its catalog anew";
    close(dir);
    return advice;
}
