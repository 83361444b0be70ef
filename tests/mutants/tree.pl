# A copy of the tree that may be changed, built once, in which a change of a few
# files costs what it must: the objects that depend on them, and the link of a test
# at the moment that it is run. Loaded by run.pl.
use strict;
use warnings;
use POSIX ();

sub seconds { return (POSIX::times())[0] / POSIX::sysconf(&POSIX::_SC_CLK_TCK) }

sub slurp {
    my ($path) = @_;
    open my $h, '<:raw', $path or die "$path: $!\n";
    local $/;
    my $text = <$h>;
    return defined $text ? $text : '';
}

sub spit {
    my ($path, $text) = @_;
    open my $h, '>:raw', $path or die "$path: $!\n";
    print $h $text or die "$path: $!\n";
    close $h or die "$path: $!\n";
}

# Runs a shell command with its output in a file; its exit status, 128 + n for a
# signal.
sub shell {
    my ($command, $log) = @_;
    my $status = system('/bin/sh', '-c', "{ $command\n} >'$log' 2>&1 </dev/null");
    return $status & 127 ? 128 + ($status & 127) : $status >> 8;
}

# Copies what git knows of the tree, as it is in the working tree, where it differs.
sub tree_copy {
    my ($source, $root) = @_;
    my %wanted = map { $_ => 1 } grep { -f "$source/$_" && !-l "$source/$_" }
        split /\0/, `cd '$source' && git ls-files -z --cached --others --exclude-standard`;
    die "git ls-files found nothing\n" unless %wanted;
    for my $f (keys %wanted) {
        my $text = slurp("$source/$f");
        next if -f "$root/$f" && -s _ == length $text && slurp("$root/$f") eq $text;
        my $dir = "$root/$f";
        $dir =~ s{/[^/]*$}{};
        system('mkdir', '-p', $dir) == 0 or die "mkdir $dir\n";
        spit("$root/$f", $text);
        chmod 0777, "$root/$f" if -x "$source/$f";
    }
    for my $f (split /\n/, `cd '$root' && find . -type f ! -path './build/*'`) {
        unlink "$root/$f" unless $wanted{ substr $f, 2 };
    }
}

# A tree: where it is, the command of each thing that make builds there, and what
# each source file is part of.
sub tree_new {
    my ($source, $root, $jobs, $what) = @_;
    my $t = { root => $root, commands => {}, users => {}, log => "$root.log" };
    # An access past the end of an array, or a shift too far, must be noticed.
    my $make = "cd '$root' && unset MAKEFLAGS MFLAGS MAKELEVEL && make B=build OPT=-O1 WERROR= V=1"
        . " SANITIZE='-fsanitize=bounds-strict,shift -fsanitize-undefined-trap-on-error'";
    system('mkdir', '-p', $root);
    # Short: the address of a socket has 108 bytes.
    chomp($t->{tmp} = `mktemp -d -p "\${TMPDIR:-/var/tmp}"`);
    die "mktemp failed\n" unless $t->{tmp} =~ m{^/.*/[^/]+$} && -d $t->{tmp};
    chmod 0755, $t->{tmp}; # some tests are other users for a while
    tree_copy($source, $root);
    # Objects of an interrupted run are older than the sources copied now, so make builds
    # them again. It does not notice other flags.
    my $flags = $make . slurp("$root/Makefile");
    system('rm', '-rf', "$root/build") unless -f "$root.flags" && slurp("$root.flags") eq $flags;
    spit("$root.flags", $flags);
    shell("$make -j$jobs $what", $t->{log}) == 0
        or die slurp($t->{log}) . "the tree does not build\n";
    for (split /\n/, `$make -n -B $what 2>/dev/null`) {
        $t->{commands}{$1} = $_ if m{^\S*(?:cc|clang|gcc)\S* .* -o (build/\S+)} && !/; *then/;
    }
    # Programs get the objects for the library made of them, so that a change reaches them.
    my %of = map { $_ => $t->{commands}{$_} =~ / -o \S+ (.*)/ } grep { m{^build/whole/} } keys %{ $t->{commands} };
    for (grep { !$of{$_} } keys %{ $t->{commands} }) {
        $t->{commands}{$_} =~ s{build/libtamis\.a}{build/whole/store.o};
        $t->{commands}{$_} =~ s{(build/whole/\S+)}{$of{$1}}g;
    }
    for my $d (split /\n/, `cd '$root' && find build -name '*.d'`) {
        my $text = slurp("$root/$d");
        $text =~ s/\\\n/ /g;
        my ($object, $on) = $text =~ /^(\S+):(.*)$/m or next;
        push @{ $t->{users}{$_} }, $object for grep { !m{^/} } split ' ', $on;
    }
    return $t;
}

sub tree_leave { system('rm', '-rf', $_[0]{tmp}) if $_[0]{tmp} }

# The objects that a test is linked of.
sub tree_objects {
    my ($t, $test) = @_;
    return grep { /\.o$/ } map { split ' ', $t->{commands}{$_} // '' } @{ $test->{programs} };
}

# Puts other text into files and compiles what these tests are linked of and depends on
# them, with these flags; their own objects only if $all. Returns what tree_restore() needs; $t->{failed}
# says whether a compiler refused, and $t->{same} whether the objects are what they were.
sub tree_change {
    my ($t, $changes, $all, $flags, @tests) = @_;
    my (%before, %objects);
    my %linked = map { $_ => 1 } map { tree_objects($t, $_) } @tests;
    for my $f (sort keys %$changes) {
        $before{$f} = slurp("$t->{root}/$f");
        $objects{$_} = 1 for grep { $linked{$_} && ($all || !m{^build/tests/}) } @{ $t->{users}{$f} || [] };
        spit("$t->{root}/$f", $changes->{$f});
    }
    $before{$_} = slurp("$t->{root}/$_") for keys %objects;
    $t->{linked} = {};
    $t->{failed} = 0;
    my $sum = "cd '$t->{root}' && md5sum " . join ' ', sort keys %objects;
    my $old = %objects ? `$sum` : '';
    for my $o (sort keys %objects) {
        shell("cd '$t->{root}' && $t->{commands}{$o} -w $flags", $t->{log}) == 0 or do { $t->{failed} = 1; last };
    }
    ($t->{fingerprint} = !%objects || $t->{failed} ? '' : `$sum`) =~ tr/\n/ /;
    $t->{same} = $t->{fingerprint} eq $old =~ tr/\n/ /r;
    return \%before;
}

sub tree_restore {
    my ($t, $before) = @_;
    spit("$t->{root}/$_", $before->{$_}) for keys %$before;
    $t->{linked} = {};
}

# Links what the test runs if that was not done since the last change, and runs it.
# Returns '' if it passed, else what happened, and the seconds it took.
sub tree_test {
    my ($t, $test) = @_;
    for my $program (grep { $t->{linked} && !$t->{linked}{$_}++ } @{ $test->{programs} }) {
        shell("cd '$t->{root}' && $t->{commands}{$program}", $t->{log}) == 0 or return ('does not link', 0);
    }
    my $began = seconds();
    # A mutant may ask for all memory, write without end, or go round in circles. The limits
    # leave room for a busy machine; that of processor time need not be as wide.
    my $limit = defined $test->{seconds} ? int(60 + 20 * $test->{seconds}) : 900;
    my $cpu = defined $test->{seconds} ? int(5 + 10 * $test->{seconds}) : 900;
    my $status = shell("cd '$t->{root}' && find '$t->{tmp}' -mindepth 1 -delete && ulimit -c 0 && "
        . "ulimit -S -v 33554432 && ulimit -S -t $cpu && "
        . "TMPDIR='$t->{tmp}' exec timeout -k 2 $limit sh -c '$test->{run}'", $t->{log});
    my $took = seconds() - $began;
    return ('', $took) if $status == 0;
    return ('hangs', $took) if $status =~ /^(?:124|137|152)$/;
    return ($status > 128 && $status < 192 ? "dies of signal @{[$status - 128]}" : 'fails', $took);
}

1;
