/* Two copies of this library in one process, of a plugin and of its host perhaps, must
 * not have one store open at once. Each has a registry and an LMDB environment of its
 * own, but LMDB's locks belong to the process: the copy that closes first drops those
 * of the other, and the copy that opens second resets the lock file under the first.
 *
 * The copies see nothing of each other's memory. So each one locks a byte of the
 * store's directory that stands for the process, with a lock that belongs to the open
 * file description, and asks whether another description has a lock there. A directory
 * can be locked for reading only, so the byte is first locked and then looked at: of
 * two copies that come at once at least one sees the other. */
#include "lib/store/base/base.h"

#define COPIES_AT (UINT64_C(1) << 62)

int copies_enter(int dir)
{
    uint64_t at, found;
    int rc = io_process(&at);
    if (!rc)
        rc = io_byte_lock(dir, F_OFD_SETLK, F_RDLCK, COPIES_AT + at, 1, NULL);
    if (!rc)
        rc = io_byte_lock(dir, F_OFD_GETLK, F_WRLCK, COPIES_AT + at, 1, &found);
    return rc || found == NOT_LOCKED ? rc : TAMIS_ERR_BUSY;
}

/* Unlocks before the close: a child being forked may have the descriptor, too. */
void copies_leave(int dir)
{
    io_byte_lock(dir, F_OFD_SETLK, F_UNLCK, 0, 0, NULL);
}
