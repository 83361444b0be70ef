/* The half without LMDB, as pkg-config has it: filter FILE builds a filter, and asks
 * it. */
#include <string.h>

#include <tamis.h>

int main(int argc, char **argv)
{
    struct tamis_filter_info info;
    struct tamis_builder *builder = NULL;
    struct tamis_filter *filter = NULL;
    struct tamis_key key;
    int maybe;

    if (argc != 2 || tamis_builder_create(NULL, &builder, NULL) != 0 ||
        tamis_builder_add_key(builder, "apple", 5) != 0 ||
        tamis_builder_finish(builder, argv[1], NULL, NULL, NULL) != 0 ||
        tamis_filter_open(argv[1], NULL, &filter, NULL) != 0 ||
        tamis_filter_info(filter, &info, NULL) != 0)
        return 2;
    key = tamis_key_of(&info.domain, "apple", 5);
    maybe = tamis_filter_probe(filter, &key, NULL) == TAMIS_MAYBE;
    tamis_filter_close(filter);
    tamis_builder_free(builder);
    return maybe ? 0 : 3;
}
