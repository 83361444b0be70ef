/* Golden hash values: the hash is the format (SPEC.md section 3), so these never
 * change. The key of n bytes is the first n of the bytes (0x9b + 0x6d * i) mod 256,
 * about half of them above 0x7f. Computed by a Python implementation of XXH3-64
 * that shares no code with libxxhash; the column of seed 0 was compared with
 * xxhsum -H3 as well. */
#ifndef TAMIS_TESTS_HASH_VECTORS_H
#define TAMIS_TESTS_HASH_VECTORS_H

#include <stdint.h>

static const uint64_t hash_vector_seeds[3] = {
    0,
    UINT64_C(0x0123456789abcdef),
    UINT64_C(0xffffffffffffffff),
};

static const struct hash_vector {
    uint32_t n_bytes;
    uint64_t hash[3]; /* one per seed */
} hash_vectors[] = {
    {0, {0x2d06800538d394c2, 0xcc1ca35a1b089c5c, 0x4c093276ae47a555}},
    {1, {0x689bcff27e5d1f7b, 0xa6a83df3e5b877fd, 0xc20c5149dbbfc144}},
    {2, {0x04fa0534447265de, 0xa4319bc01e5064b1, 0xd2a8c72e267e4d5e}},
    {3, {0xb7a6ea0516704e90, 0x866de9caf0eae6ec, 0xa5e3e3bd8d2cd5c5}},
    {4, {0x82e581c84acfdf65, 0x7653cf8a19071212, 0xa9b167ca10a6656f}},
    {5, {0x8ab6652ae3681f7f, 0x401b16e0acedd51b, 0xfba1d4bbec933c8b}},
    {6, {0x2df0fd7a31997283, 0x65fa793a35c115aa, 0x093e636c17fbaf76}},
    {7, {0x3a6d0bfd3a023b72, 0x6e6bdf3d908a022c, 0x681d6335853ab956}},
    {8, {0xb12ef132309573fd, 0x8256d08517ae59c5, 0xbc19efca09873d91}},
    {9, {0x2c3e10a4eda53ad2, 0xb1fdfe2a0d31dcc1, 0x9bb44a5570cf9db5}},
    {10, {0x6ba34fe2df929001, 0x12b8a1ebf78e0b0c, 0x5333e630d3bb473d}},
    {11, {0xb8c82a9aca67ff1d, 0x9ba1c5a20f288f3c, 0x4cadeb138e606e2c}},
    {12, {0xfcf62d3504f91add, 0x7fd8325114ad3c15, 0x6a2a9c6d699384be}},
    {13, {0xb1859c832fcc79ca, 0x9c2b0f33f997ed93, 0x70c6ab5e8c318adc}},
    {14, {0xe9d0a211e21a4769, 0x32667168ba7c88eb, 0x0e7beb3fe17151c4}},
    {15, {0x7b6953d77a4698e3, 0x2868add2098a688d, 0x5d8dc301ed9215a8}},
    {16, {0x163fd3e029c05728, 0xc78ad83011de8fb1, 0xfbad4de8088a30d5}},
    {17, {0x8b402349b72d0183, 0xdaebef954a44830f, 0x4b852657b912c2a5}},
    {18, {0x6c5f7ac66b7a1b7c, 0x19cd22df76551116, 0xe86b6f35092f15b4}},
    {19, {0x471be5702b08084d, 0x2b8a4dd54b6a1d7e, 0x65ad6f86ade8bfa9}},
    {20, {0x3305497ad9aa76eb, 0xa1ebf466a1265f03, 0x182d8a62ed8e1c83}},
    {21, {0xa006a442bb7de835, 0x04c3adaeb7050931, 0xdf15798f8406fd59}},
    {22, {0x505a4c9c1c3a8565, 0x8236a6af8e700a39, 0xd63271f34520c527}},
    {23, {0x5d177e4c30b5fb3a, 0xf50e5a8c731bc31a, 0x3be8b84a99145a3c}},
    {24, {0x21d5041d55178cb2, 0xf4a36529d5c88e8f, 0xd0fbd9614508bf20}},
    {25, {0xdb69f9797001d19e, 0xaedbc4143a0b4c2b, 0x12447be9f5ff044e}},
    {26, {0x6b9a2e857a124ccf, 0x3fcc0e1184383784, 0x15be8cd4b486760a}},
    {27, {0x3f86edbe27b68160, 0xe1520e07e7856efc, 0x7df0e5064a0bb208}},
    {28, {0x140c283d58c0c9dc, 0x7727984dc326e3f7, 0xb9936811082df6ac}},
    {29, {0xdb856c2bf4d6e2ad, 0x60991c6da9402e7b, 0xcc92c6492ac1751d}},
    {30, {0xa3c11f915d806aae, 0x41f89fd3b3add460, 0xef4a947f3fa624d6}},
    {31, {0xda65d3400294e4c3, 0xde639b2b780fd6cd, 0x8790dfc1821451ba}},
    {32, {0x1d2c75d7fcec9629, 0xf053babec9b9ac86, 0xfa14bff3bc814cd7}},
    {33, {0xfafd81914dbe2e19, 0x22e97a13f812bf53, 0xfe384cde3d8fd767}},
    {34, {0xbe86dd9d91043f20, 0x5f7e11a400b4da9e, 0x224c3d385350529f}},
    {35, {0xf507f6d9d0eb0e30, 0xc2a6e8a86e285e66, 0x955c31bf8a09dbfa}},
    {36, {0x03b5570f77e4bfe3, 0x94ae286aeb1ccf8f, 0x8465544b94951445}},
    {37, {0x2f6ba671c58a985e, 0x35b0d0a326cc0c04, 0xc02a593adcdf89e5}},
    {38, {0x52bce830d9d3e739, 0x9921083a95faba84, 0x28e3e3ad4e704bfa}},
    {39, {0xd6629c53d999d9c7, 0x83705395b2cbae2c, 0xb6a6deb9724f7c2a}},
    {40, {0x166c914157dccb12, 0x5a274a41e6ed27a4, 0x52fcb839e62082b8}},
    {41, {0xa2d3978acc7c04ba, 0x1eb7fbc8516d7c39, 0x55b505c47cd1c022}},
    {42, {0x013c03585723a39d, 0xffa783b283ae0990, 0x32aeda029344664a}},
    {43, {0xdc2034bb16a1522c, 0xc5b8f97b976a3ba5, 0xf4d574741ecd469e}},
    {44, {0x678e3ba7f2ad48f7, 0x15ba4da2f6de8e2b, 0x884a1ef5d6dc01cd}},
    {45, {0x68488e0b98089540, 0xce0bd98d0bb0a2e1, 0xd65dbf6ac2cef6d8}},
    {46, {0x4a13be5046edf5e1, 0x4f5c6807a8801fe1, 0x89c29b9facc7faf6}},
    {47, {0x54710afc8f9b50a5, 0x93d0a3082b93f8f1, 0x6c3897d9d46c84c9}},
    {48, {0x5f460c3dcbcda8c6, 0xf35e0b64127867c1, 0x7a7e07eb17ff520b}},
    {49, {0xadee2cc7715669f5, 0x8d3d9b25e69d50a2, 0x4c5e006e448adda3}},
    {50, {0x3127808df05decac, 0x257bfe68dc011caf, 0xb89d02c064eb9e9e}},
    {51, {0xd0f4a439a289b2b0, 0xf0480b1f674c7e75, 0x8390757447f45c4b}},
    {52, {0xf90568929a0f0282, 0x49f5b9021bfac3d6, 0x3b69a1c09ac08961}},
    {53, {0xe9909091f4645541, 0x756b6f72afaa6f50, 0x41af8990f4cc723a}},
    {54, {0x7551e7294355cfbd, 0x8389be246ad8982d, 0xaf0f858920a459a7}},
    {55, {0x7694e70c468a693d, 0xb1b11057ad6c71fd, 0xa4b5e637c20da13c}},
    {56, {0x5ea5e459a4a85adb, 0x90b0a50e7226825a, 0x8bbdb1a54b5a5e1c}},
    {57, {0xf9c54500984db4f9, 0xa9d6f3585d2cced7, 0x201fd404f3a75581}},
    {58, {0xf890b7383778cd2e, 0xa5205411d1cdf3cf, 0x41f2e813b73cecc0}},
    {59, {0x3761713ce105a802, 0xc9716c4b4fbad4dd, 0xc6394cc9625665f5}},
    {60, {0x0fef23c407bcbf6f, 0x0fe88659bfa3a906, 0x81fec7a0a782d20d}},
    {61, {0x728588253ffa4e1a, 0x6b66e71f9dc19857, 0xda8387cf49e9f9d1}},
    {62, {0xd25b8b63aab35382, 0xf63d47ad08d73f59, 0xb20f6af68d5bb707}},
    {63, {0xe76b7b742dedb1e5, 0x9d213e2343c5ebe4, 0x9c702d78171d69d4}},
    {64, {0x423302bbe3d02090, 0x48c882bfceed9ff6, 0xda48471c590647de}},
    {1000, {0x128ac40a5c3db39a, 0x9504df9c7d400bc1, 0x6fdc88a07bda4b88}},
    {4096, {0x5077cea2f459e9a3, 0xdfec483a2342d3cf, 0x3b5977f78392e32e}},
};

#endif
