# The planted bugs: reads planted/ROOM.bugs and applies one bug to the text of a tree.
# run.pl loads it. Run by itself in the tree:
#
#     planted.pl DIR...                 does every bug apply? (make check-planted)
#     planted.pl --list DIR             the names
#     planted.pl --apply DIR NAME COPY  plants it; COPY/ gets the files as they were
#
# A bug is an entry of lines without a blank one between them. Its first line names it, the
# rules that it breaks (R1 and so on, sections of SPEC.md, or Answers: no present key is
# ABSENT), and the one test that must fail. Its second line says what is wrong.
#
#     512-slices-one-apart: Answers; test_partition
#     Slices begin one hash behind the end of the one before.
#     in partition_hashes:
#       f->slices[i].n = here;
#     + f->slices[i].n -= here > 0 && i + 1 < n_slices;
#
# `in FUNCTION:` finds the function by its definition, wherever it stands. Where several
# have the name, `in FUNCTION of PATH:` names a folder or file. `in file PATH:` is for
# text outside functions. Lines with two blanks or `- ` in front must be found there
# exactly once; white space does not count. Lines with two blanks or `+ ` replace them.
# A test is a program of tests/unit, a file of tests/cli, or a sample of make check.
use strict;
use warnings;

sub planted_slurp {
    my ($path) = @_;
    open my $h, '<:raw', $path or die "$path: $!\n";
    local $/;
    return scalar(<$h>) // '';
}

# All entries of $dir/*.bugs, in the order of their numbers.
sub planted_entries {
    my ($dir) = @_;
    my (@out, %seen);
    for my $path (glob "$dir/*.bugs") {
        for my $entry (grep { !/^#/ && /\S/ } split /\n{2,}/, planted_slurp($path)) {
            my ($head, $text, @lines) = split /\n/, $entry;
            ($text // '') =~ /^\w.*\.$/ && $head =~ /^((\d{2,4})-[a-z0-9-]+): (\w.*); (\S+)$/
                or die "$path: not NAME: RULES; TEST and a sentence: $head\n";
            my ($name, %bug) = ($1, name => $1, number => $2, rule => $3, test => $4, bug => $text, edits => []);
            die "$path: $name has the number of $seen{ $bug{number} }\n" if $seen{ $bug{number} };
            $seen{ $bug{number} } = $name;
            for (@lines) {
                if (/^in (file )?(\S+?)(?: of (\S+))?:$/) {
                    push @{ $bug{edits} }, { in => substr($_, 3, -1), old => [], new => [],
                        $1 ? (file => $2) : (function => $2, of => $3 // '') };
                } elsif (@{ $bug{edits} } && /^([ +-])(?: (.*))?$/) {
                    push @{ $bug{edits}[-1]{old} }, $2 // '' if $1 ne '+';
                    push @{ $bug{edits}[-1]{new} }, $2 // '' if $1 ne '-';
                } else {
                    die "$path: $name: cannot be read: $_\n";
                }
            }
            die "$path: $name changes nothing\n" unless @{ $bug{edits} };
            push @out, \%bug;
        }
    }
    return sort { $a->{number} <=> $b->{number} } @out;
}

# Where each function of the tree is defined: name => [[file, start, length], ...].
sub planted_functions {
    my ($root) = @_;
    my %at;
    for my $f (sort split /\n/, `cd '$root' && find lib format tools -name '*.c' -o -name '*.h' -o -name '*.cc'`) {
        my $text = planted_slurp("$root/$f");
        while ($text =~ /^([A-Za-z_][^;{}#]*?\)(?: const)?)\n\{\n.*?^\}/gms) {
            my ($start, $length, $head) = ($-[0], $+[0] - $-[0], $1);
            $head =~ s/__attribute__\(\(.*?\)\)//gs;
            push @{ $at{$1} }, [$f, $start, $length] if $head =~ /(\w+)\(/;
        }
    }
    return \%at;
}

# The text as a pattern for which white space does not count.
sub planted_pattern {
    my @tokens = join("\n", @_) =~ /\w+|\S/g;
    my ($re, $last) = ('', '');
    for (@tokens) {
        $re .= "$last$_" =~ /^\w\w/ ? '\s+' : '\s*' if $re ne '';
        $re .= quotemeta;
        $last = substr $_, -1;
    }
    $re = "(?<!\\w)$re" if $re =~ /^\w/;
    $re .= '(?!\w)' if $last =~ /\w/;
    return qr/$re/;
}

# The new text of each file that a bug changes. Dies with one line if it does not apply.
sub planted_apply {
    my ($root, $bug, $functions) = @_;
    my %new;
    for my $e (@{ $bug->{edits} }) {
        my $where = "$bug->{name}: $e->{in}";
        my ($file, $start, $length);
        if ($e->{file}) {
            $file = $e->{file};
            die "$where: no such file\n" unless -f "$root/$file";
            $start = 0;
        } else {
            my @found = grep { index("$_->[0]/", $e->{of}) == 0 } @{ $functions->{ $e->{function} } || [] };
            die "$where: no such function\n" unless @found;
            die "$where: " . @found . " functions: @{[map { $_->[0] } @found]}\n" if @found > 1;
            ($file, $start, $length) = @{ $found[0] };
        }
        my $text = planted_slurp("$root/$file");
        $length = length $text unless defined $length;
        my $part = substr $text, $start, $length;
        my $pattern = planted_pattern(@{ $e->{old} });
        my $n = () = $part =~ /$pattern/g;
        die "$where: found $n times, not once: $e->{old}[0]\n" if $n != 1;
        $part =~ /$pattern/;
        push @{ $new{$file} }, [$start + $-[0], $+[0] - $-[0], join("\n", @{ $e->{new} })];
    }
    for my $file (keys %new) {
        my $text = planted_slurp("$root/$file");
        my $end = length $text;
        for (sort { $b->[0] <=> $a->[0] } @{ $new{$file} }) {
            die "$bug->{name}: two edits overlap in $file\n" if $_->[0] + $_->[1] > $end;
            substr($text, $_->[0], $_->[1]) = $_->[2];
            $end = $_->[0];
        }
        $new{$file} = $text;
    }
    return \%new;
}

sub planted_check {
    my $functions = planted_functions('.');
    my ($n, $bad) = (0, 0);
    for my $bug (map { planted_entries($_) } @_) {
        $n++;
        eval { planted_apply('.', $bug, $functions); 1 } or do { print $@; $bad++ };
    }
    print "$n planted bugs, $bad of which do not apply\n";
    return $bad || !$n ? 1 : 0;
}

sub planted_plant {
    my ($dir, $name, $copy) = @_;
    my ($bug) = grep { $_->{name} eq $name } planted_entries($dir) or die "no bug $name\n";
    my $new = planted_apply('.', $bug, planted_functions('.'));
    for my $file (keys %$new) {
        system('cp', '--parents', $file, $copy) == 0 or die "cannot copy $file\n";
        open my $h, '>:raw', $file or die "$file: $!\n";
        print $h $new->{$file};
        close $h or die "$file: $!\n";
    }
    return 0;
}

unless (caller) {
    my $what = $ARGV[0] // '';
    exit planted_plant(@ARGV[1 .. 3]) if $what eq '--apply';
    exit planted_check(@ARGV) if $what ne '--list';
    print "$_->{name}\n" for planted_entries($ARGV[1]);
}
1;
