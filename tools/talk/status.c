/* The exit status that an error of the library or of the system ends a command with. */
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
