# Bytes of the disk: as planned, as they are, and both where a file has holes.
load ../common

on_disk() {
    echo $(($(stat -c %b "$1") * 512))
}

@test "a large filter takes as much of the disk as was planned" {
    planned=$(tamis plan --keys 1200000 --fpr 1e-6 --json | jq .file_bytes)
    [ "$planned" -gt 4194304 ]
    tamis init store --fpr 1e-6
    seq 1200000 | tamis build store large
    [ "$(stat -c %s "$(filter_of large)")" -eq "$planned" ]
    [ "$(on_disk "$(filter_of large)")" -eq "$planned" ]
    ok tamis stat store large
    prints "filters +[0-9.]+ MiB allocated, $(jq -n "8 * $planned / 1200000 * 100 | round / 100") bits per key"
    prints "size +$planned bytes \([0-9.]+ MiB\)"$'\n'
}

@test "stat counts allocated bytes, and says the length where it differs" {
    make_holes
    ok tamis stat store g
    prints 'filters +[0-9.]+ KiB allocated, [0-9.]+ KiB long, '"$(printf %.2f "$(jq -n "8 * $taken / 2")") bits per key"
    prints "size +$length bytes \(.*\) long, $taken allocated \("
    ok tamis stat store g --json
    jq -e ".filter_bytes == $length and .filter_allocated_bytes == $taken and
        .details[0].bytes == $length and .details[0].allocated_bytes == $taken" <<<"$output"
    ok tamis stat store --prometheus
    prints "tamis_segment_filter_allocated_bytes\{store=\"store\",segment=\"g\"\} $taken"
}

@test "a plan of a store compares with allocated bytes" {
    make_holes
    tells "now +$taken bytes .* allocated; the files are [0-9.]+ KiB long" tamis plan store --bytes 64K
    ok tamis plan store --bytes 64K --json
    jq -e ".bytes_now == $taken and .length_now == $length and
        .segments[0].bytes_now == $taken and .segments[0].length_now == $length" <<<"$output"
}
