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

# Processor seconds of all children that have ended.
sub processor { my @t = POSIX::times(); return ($t[3] + $t[4]) / POSIX::sysconf(&POSIX::_SC_CLK_TCK) }

# Runs a shell command with its output in a file; its exit status, 128 + n for a
# signal.
sub shell {
    my ($command, $log) = @_;
    my $status = system('/bin/sh', '-c', "{ $command\n} >'$log' 2>&1 </dev/null");
    return $status & 127 ? 128 + ($status & 127) : $status >> 8;
}

# The processes of a group and their children, and what their threads have done so far:
# undef for that if one of them is running, or would run if the machine were less busy.
sub group_now {
    my ($group) = @_;
    my (%parent, %in, $busy, $done);
    for my $stat (map { eval { slurp($_) } // () } glob '/proc/[0-9]*/stat') {
        my ($pid, $parent, $of) = $stat =~ /^(\d+) .*\) \S (\d+) (\d+)/ or next;
        $parent{$pid} = $parent;
        $in{$pid} = 1 if $of == $group;
    }
    for my $more (1 .. 4) { $in{$_} = 1 for grep { $in{ $parent{$_} } } keys %parent }
    for my $thread (map { glob "/proc/$_/task/*" } sort keys %in) {
        my ($stat, $schedule) = map { eval { slurp("$thread/$_") } // '' } qw(stat schedstat);
        $busy ||= $stat !~ /\) [SZTt] /;
        $done .= "$thread $schedule";
    }
    return ([keys %in], $busy ? undef : $done);
}

# The same in a group of processes of its own. It is ended, and 'hangs' is returned, after
# $limit seconds, or once none of its threads has run or was kept from it for ten.
sub shell_or_hang {
    my ($command, $log, $limit) = @_;
    my ($began, $looked, $quiet, $before) = (seconds(), seconds(), 0, '');
    my $child = fork // die "fork: $!\n";
    if ($child == 0) {
        POSIX::setpgid(0, 0);
        POSIX::_exit(shell($command, $log));
    }
    until (waitpid $child, POSIX::WNOHANG()) {
        my $now = seconds();
        select undef, undef, undef, $now - $began < 1 ? 0.01 : 0.05;
        next if $now - $looked < 1;
        $looked = $now;
        my ($processes, $done) = group_now($child);
        $quiet = defined $done && $done eq $before ? $quiet + 1 : 0;
        $before = $done // '';
        next if $quiet < 10 && $now - $began < $limit;
        kill 'KILL', @$processes;
        waitpid $child, 0;
        return 'hangs';
    }
    return $? >> 8;
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

# Compiles these objects, some at a time. False if the compiler refuses one.
sub tree_compile {
    my ($t, $jobs, $flags, @objects) = @_;
    spit("$t->{root}.commands", join '', map { "$t->{commands}{$_} -w $flags\0" } @objects);
    return shell("cd '$t->{root}' && xargs -0 -r -P $jobs -I{} sh -c '{} || exit 255' <'$t->{root}.commands'", $t->{log}) == 0;
}

# A tree: where it is, the command of each thing that make builds there, and what
# each source file is part of. It is copied from the first one, if that is given.
sub tree_new {
    my ($source, $root, $jobs, $what, $first) = @_;
    my $t = { root => $root, commands => {}, users => {}, log => "$root.log" };
    # An access past the end of an array, or a shift too far, must be noticed.
    my $make = "cd '$root' && unset MAKEFLAGS MFLAGS MAKELEVEL && make B=build OPT=-O1 WERROR= V=1"
        . " SANITIZE='-fsanitize=bounds-strict,shift -fsanitize-undefined-trap-on-error'";
    system('mkdir', '-p', $root);
    # Short: the address of a socket has 108 bytes.
    chomp($t->{tmp} = `mktemp -d -p "\${TMPDIR:-/var/tmp}"`);
    die "mktemp failed\n" unless $t->{tmp} =~ m{^/.*/[^/]+$} && -d $t->{tmp};
    chmod 0755, $t->{tmp}; # some tests are other users for a while
    if ($first) {
        system("rm -rf '$root' && cp -a '$first->{root}' '$root'") == 0 or die "$root: not copied\n";
        # Objects of tests know where their tree is, and the programs that are made of them.
        $t->{users} = $first->{users};
        $t->{commands}{$_} = $first->{commands}{$_} =~ s{\Q$first->{root}\E}{$root}gr for keys %{ $first->{commands} };
        my @objects = split /\n/, `cd '$root' && grep -rlF --include='*.o' '$first->{root}' build`;
        tree_compile($t, $jobs, '', grep { $t->{commands}{$_} } @objects) or die slurp($t->{log});
        $t->{linked} = {};
        return $t;
    }
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
# them: their own objects only if $how{all}, with $how{flags}, $how{jobs} at a time. If there
# is a folder $how{kept}, the objects are copied from it, else they are left in it if they
# can be of use. Returns what tree_restore() needs; $t->{failed} says whether a compiler
# refused, and $t->{same} whether the objects are what they were.
sub tree_change {
    my ($t, $changes, $tests, %how) = @_;
    my (%before, %objects);
    my %linked = map { $_ => 1 } map { tree_objects($t, $_) } @$tests;
    for my $f (sort keys %$changes) {
        $before{$f} = [slurp("$t->{root}/$f"), (stat "$t->{root}/$f")[9]];
        $objects{$_} = 1 for grep { $linked{$_} && ($how{all} || !m{^build/tests/}) } @{ $t->{users}{$f} || [] };
        spit("$t->{root}/$f", $changes->{$f});
    }
    $before{$_} = [slurp("$t->{root}/$_")] for keys %objects;
    my ($kept, $objects) = ($how{kept} // '', join ' ', sort keys %objects);
    my $sum = "cd '$t->{root}' && md5sum $objects";
    $t->{linked} = {};
    $t->{failed} = 0;
    if (-d $kept) {
        system("cp -r '$kept/.' '$t->{root}'") == 0 or die "$kept: not copied\n";
        return \%before;
    }
    my $old = %objects ? `$sum` : '';
    $t->{failed} = !tree_compile($t, $how{jobs} // 1, $how{flags} // '', sort keys %objects);
    ($t->{fingerprint} = !%objects || $t->{failed} ? '' : `$sum`) =~ tr/\n/ /;
    $t->{same} = $t->{fingerprint} eq $old =~ tr/\n/ /r;
    return \%before if !$kept || $t->{failed} || $t->{same};
    system("mkdir -p '$kept' && cd '$t->{root}' && cp --parents $objects '$kept'") == 0 or die "$kept: not copied\n";
    return \%before;
}

# The next run may take objects for good that are newer than their source: that comes last.
sub tree_restore {
    my ($t, $before) = @_;
    for (sort { @{ $before->{$a} } <=> @{ $before->{$b} } } keys %$before) {
        my ($text, $time) = @{ $before->{$_} };
        spit("$t->{root}/$_", $text);
        utime $time, $time, "$t->{root}/$_" if $time;
    }
    $t->{linked} = {};
}

# Links what the test runs if that was not done since the last change, and runs it.
# Returns '' if it passed, else what happened, and the seconds it took.
sub tree_test {
    my ($t, $test) = @_;
    for my $program (grep { $t->{linked} && !$t->{linked}{$_}++ } @{ $test->{programs} }) {
        shell("cd '$t->{root}' && $t->{commands}{$program}", $t->{log}) == 0 or return ('does not link', 0, 0);
    }
    my ($began, $used) = (seconds(), processor());
    # A mutant may ask for all memory, write without end, or go round in circles.
    my $limit = defined $test->{seconds} ? int(60 + 20 * $test->{seconds}) : 900;
    my $cpu = defined $test->{cpu} ? int(5 + 5 * $test->{cpu}) : 900;
    my $status = shell_or_hang("cd '$t->{root}' && find '$t->{tmp}' -mindepth 1 -delete && ulimit -c 0 && "
        . "ulimit -S -v 33554432 && ulimit -S -t $cpu && TMPDIR='$t->{tmp}' exec sh -c '$test->{run}'", $t->{log}, $limit);
    my @took = (seconds() - $began, processor() - $used);
    return ('', @took) if $status eq '0';
    return ($status, @took) if $status eq 'hangs';
    return ('uses up its time', @took) if $status == 152;
    return ($status > 128 && $status < 192 ? "dies of signal @{[$status - 128]}" : 'fails', @took);
}

1;
