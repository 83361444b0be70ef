# Makes mutants of a C file: small changes of its operators, conditions, constants
# and statements. Deterministic: the same text gives the same mutants in the same
# order. Loaded by run.pl.
#
# It works on the text, not on a syntax tree. Mutants of types and declarations do not
# compile, and the caller drops them; comments, strings, preprocessor lines and static
# assertions are left alone.
use strict;
use warnings;

# The replacements of an operator between two operands.
my %BINARY = (
    '<'  => ['<=', '>='], '<=' => ['<', '>'], '>' => ['>=', '<='], '>=' => ['>', '<'],
    '==' => ['!='], '!=' => ['=='], '&&' => ['||'], '||' => ['&&'],
    '+'  => ['-'],  '-'  => ['+'],  '*'  => ['/'],  '/'  => ['*'], '%' => ['/'],
    '&'  => ['|'],  '|'  => ['&'],  '<<' => ['>>'], '>>' => ['<<'],
    '+=' => ['-='], '-=' => ['+='], '|=' => ['&='], '&=' => ['|='],
);
my %KEYWORD = map { $_ => 1 } qw(if else for while do switch case default return break
    continue goto sizeof static const struct enum union typedef extern inline);

# [type, text, offset] of each token that may be mutated or gives context.
sub tokens {
    my ($text) = @_;
    my @t;
    pos($text) = 0;
    while (pos($text) < length $text) {
        my $at = pos $text;
        if ($text =~ m{\G\s+}gc || $text =~ m{\G/\*.*?\*/}gcs || $text =~ m{\G//[^\n]*}gc) { next }
        if ($text =~ m{\G\#(?:[^\n\\]|\\.)*\n}gcs) { next }
        if ($text =~ m{\G_Static_assert\b[^;]*;}gcs) { next }
        if    ($text =~ m{\G"(?:[^"\\]|\\.)*"}gc)      { push @t, ['string', $&, $at] }
        elsif ($text =~ m{\G'(?:[^'\\]|\\.)*'}gc)      { push @t, ['char', $&, $at] }
        elsif ($text =~ m{\G[A-Za-z_]\w*}gc)           { push @t, ['name', $&, $at] }
        elsif ($text =~ m{\G\.?\d(?:[\w.]|[eEpP][-+])*}gc) { push @t, ['number', $&, $at] }
        elsif ($text =~ m{\G(?:<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)}gcs) {
            push @t, ['op', $&, $at];
        }
    }
    return \@t;
}

# Index of the token that closes the bracket at $i.
sub closing {
    my ($t, $i) = @_;
    my $depth = 0;
    for (; $i < @$t; $i++) {
        next if $t->[$i][0] ne 'op';
        $depth++ if $t->[$i][1] =~ /^[(\[{]$/;
        return $i if $t->[$i][1] =~ /^[)\]}]$/ && --$depth == 0;
    }
    die "unbalanced";
}

# Index of the semicolon that ends the statement beginning at $i; undef if a brace
# comes first.
sub statement_end {
    my ($t, $i) = @_;
    for (; $i < @$t; $i++) {
        next if $t->[$i][0] ne 'op';
        return $i if $t->[$i][1] eq ';';
        return undef if $t->[$i][1] =~ /^[{}]$/;
        $i = closing($t, $i) if $t->[$i][1] =~ /^[(\[]$/;
    }
    return undef;
}

# For each token the name of the function that it is in, or ''.
sub functions {
    my ($t) = @_;
    my ($depth, $function, $name, @of) = (0, '', '');
    for my $i (0 .. $#$t) {
        my ($type, $s) = @{ $t->[$i] };
        if ($depth == 0 && $type eq 'name' && $i < $#$t && $t->[$i + 1][1] eq '(') { $name = $s }
        if ($type eq 'op' && $s eq '{') {
            $function = $name if $depth == 0 && $i > 0 && $t->[$i - 1][1] eq ')';
            $depth++;
        }
        push @of, $depth ? $function : '';
        if ($type eq 'op' && $s eq '}' && --$depth == 0) { $function = '' }
    }
    return \@of;
}

# The last place before an offset at which a statement may stand that is run whenever the
# one at the offset is: behind a statement that ends, or where a block begins; where cases
# and labels jump to, before the switch or where the function begins.
sub place_before {
    my ($text, $offset) = @_;
    my ($t, $head, $place, @heads, @open) = (tokens($text), '');
    for my $i (1 .. $#$t - 1) {
        my ($before, $s, $at, $next) = ($t->[$i - 1][1], @{ $t->[$i] }[1, 2], $t->[$i + 1][1]);
        last if $at >= $offset;
        $place = $open[-1]{begin} if $s =~ /^(?:case|default)$/;
        $place = $open[0]{begin} if $next eq ':' && $before =~ /^[;{}]$/ && $t->[$i][0] eq 'name';
        next if $t->[$i][0] ne 'op';
        push @heads, $before if $s eq '(';
        $head = pop @heads if $s eq ')';
        my $ends = $s eq ';' && @open && $open[-1]{runs};
        if ($s eq '{') {
            $ends = $before =~ /^(?:else|do)$/ || $before eq ')' && (!@open || $head =~ /^(?:if|for|while)$/);
            push @open, { before => $place, begin => $ends ? $at + 1 : $place,
                runs => $ends || $before eq ')' && $head eq 'switch' };
        } elsif ($s eq '}') {
            ($ends, $place) = @{ pop @open }{ 'runs', 'before' };
        }
        next if $next eq 'while' && $s ne '{'; # it may end a do
        $place = $at + 1 if $ends && @open && !@heads && $next !~ /^(?:else|case|default|[;,)])$/;
    }
    return $place;
}

sub constants {
    my ($s) = @_;
    return () if $s =~ /[.eEpP]/ && $s !~ /^0x/;
    return ('1') if $s eq '0';
    return ('0') if $s eq '1';
    return ($s + 1) if $s =~ /^\d+$/;
    return ();
}

# The mutants of a file: hashes of at, length, to, operator, function.
sub mutants_of {
    my ($text) = @_;
    my $t = tokens($text);
    my $in = functions($t);
    my @out;
    my $put = sub {
        my ($first, $last, $to, $operator) = @_;
        my $at = $t->[$first][2];
        push @out, { at => $at, length => $t->[$last][2] + length($t->[$last][1]) - $at,
            to => $to, operator => $operator, function => $in->[$first] };
    };
    for my $i (1 .. $#$t - 1) {
        next if $in->[$i] eq '';
        my ($type, $s) = @{ $t->[$i] };
        my ($ptype, $p) = @{ $t->[$i - 1] };
        my $n = $t->[$i + 1][1];
        my $operand = $ptype ne 'op' && !$KEYWORD{$p} || $p =~ /^[)\]]$/;
        if ($type eq 'op' && $operand && $BINARY{$s}) {
            $put->($i, $i, $_, 'operator') for @{ $BINARY{$s} };
        }
        $put->($i, $i, { '++' => '--', '--' => '++' }->{$s}, 'operator') if $s =~ /^(?:\+\+|--)$/;
        $put->($i, $i, '', 'operator') if $type eq 'op' && $s =~ /^[!~]$/;
        $put->($i, $i, $_, 'constant') for $type eq 'number' ? constants($s) : ();
        $put->($i, $i, { true => 'false', false => 'true' }->{$s}, 'constant')
            if $type eq 'name' && $s =~ /^(?:true|false)$/;
        if ($type eq 'name' && $s =~ /^(?:if|while)$/ && $n eq '(') {
            my $end = closing($t, $i + 1);
            my $condition = substr $text, $t->[$i + 1][2], $t->[$end][2] + 1 - $t->[$i + 1][2];
            $put->($i + 1, $end, "(!$condition)", 'condition');
        }
        # Statements: after what ends one, or after the head of an if, for, while.
        my $begins = $p =~ /^[;{}]$/ || $p eq 'else' || $p eq ')' || $p eq ':';
        next unless $begins && ($type eq 'name' || $s eq '*' || $s =~ /^[(]$/ && $p =~ /^[;{}]$/);
        my $end = statement_end($t, $i);
        next unless defined $end;
        if ($s eq 'return') {
            if ($end == $i + 1) { $put->($i, $end, ';', 'statement'); next }
            my $value = substr $text, $t->[$i + 1][2], $t->[$end][2] - $t->[$i + 1][2];
            for my $v ('0', '1', 'VERDICT_GOOD') {
                next if $value eq $v || $v eq '0' && $value eq 'false' || $v eq '1' && $value eq 'true';
                next if $value =~ /^(?:true|false|[01])$/; # a constant: mutated as one
                $put->($i, $end, "return $v;", 'return');
            }
        }
        elsif ($s =~ /^(?:break|continue)$/ || !$KEYWORD{$s}) {
            my $statement = substr $text, $t->[$i][2], $t->[$end][2] + 1 - $t->[$i][2];
            $put->($i, $end, ';', 'statement')
                if $s =~ /^(?:break|continue)$/ || $statement =~ /[(=]|\+\+|--/;
        }
    }
    name_mutants($text, \@out);
    return \@out;
}

# A name that survives changes elsewhere in the file: the function, the line before
# and after, and a number where that happens more than once.
sub name_mutants {
    my ($text, $mutants) = @_;
    my %seen;
    for my $m (@$mutants) {
        my $begin = rindex($text, "\n", $m->{at}) + 1;
        my $end = index($text, "\n", $m->{at} + $m->{length});
        my $line = substr $text, $begin, $end - $begin;
        my $after = $line;
        substr($after, $m->{at} - $begin, $m->{length}) = $m->{to};
        for ($line, $after) { s/\s+/ /g; s/^ //; s/ $//; }
        my $name = "$m->{function}: `$line` -> `$after`";
        $seen{$name}++;
        $m->{name} = $seen{$name} > 1 ? "$name #$seen{$name}" : $name;
        $m->{line} = 1 + (substr($text, 0, $m->{at}) =~ tr/\n//);
    }
}

sub mutated {
    my ($text, $m) = @_;
    substr($text, $m->{at}, $m->{length}) = $m->{to};
    return $text;
}

1;
