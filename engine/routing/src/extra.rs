// SPDX-License-Identifier: Apache-2.0
//! Does text in BIRD's language stay within what a port's router may do? Whether it is right, BIRD says.

/// Protocols that would bring the pod's own routing tables into play: a learned default route would cut it off.
const REFUSED_PROTOCOLS: [&str; 3] = ["kernel", "direct", "device"];
/// Statements that name files of the container.
const REFUSED_STATEMENTS: [&str; 3] = ["include", "log", "mrtdump"];

/// What the text must not have, with its line, which is counted from 1.
pub(crate) fn refused(text: &str) -> Option<(usize, String)> {
    let mut before = "";
    for (line, word) in words(text) {
        if matches!(before, "protocol" | "template") && REFUSED_PROTOCOLS.contains(&word) {
            return Some((line, format!("{before} {word}: BIRD must not change the pod's own routes; leave it out")));
        }
        if REFUSED_STATEMENTS.contains(&word) {
            return Some((line, format!("{word}: BIRD must not use files of its container; leave it out")));
        }
        before = word;
    }
    None
}

/// The words outside of comments, strings and quoted symbols, each with its line.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut rest, mut line) = (text, 1);
    std::iter::from_fn(move || {
        loop {
            let next = rest.chars().next()?;
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let (len, is_word) = match next {
                '#' => (rest.find('\n').unwrap_or(rest.len()), false),
                '/' if rest.starts_with("/*") => (rest[2..].find("*/").map_or(rest.len(), |end| end + 4), false),
                '"' | '\'' => (rest[1..].find([next, '\n']).map_or(rest.len(), |end| end + 2), false),
                c if is_word(c) => (rest.find(|c| !is_word(c)).unwrap_or(rest.len()), true),
                c => (c.len_utf8(), false),
            };
            let (taken, left) = rest.split_at(len);
            let at = line;
            line += taken.matches('\n').count();
            rest = left;
            if is_word {
                return Some((at, taken));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn statements_that_leave_the_router_are_refused_with_their_line() {
        for (text, found) in [
            ("protocol bgp x { local as 1; }", None),
            ("# protocol kernel\n/* include \"x\";\n protocol device */ protocol static { }", None),
            ("protocol bgp x { password \"include protocol kernel {\"; }", None),
            ("protocol static 'log' { route 1.0.0.0/8 blackhole; }", None),
            ("protocol kernel { }", Some((1, "protocol kernel"))),
            ("\n\nprotocol # why\n /* ever */\n kernel k { }", Some((5, "protocol kernel"))),
            ("template direct { }", Some((1, "template direct"))),
            ("protocol\tdevice{}", Some((1, "protocol device"))),
            ("filter f { accept; }\n  include \"/etc/passwd\";", Some((2, "include"))),
            ("log \"/tmp/x\" all;", Some((1, "log"))),
            ("mrtdump \"/tmp/x\";", Some((1, "mrtdump"))),
            ("/* never ends include", None),
            ("\"never ends\ninclude", Some((2, "include"))),
        ] {
            let expected = found.map(|(line, what)| (line, what.to_owned()));
            let refused = refused(text).map(|(line, problem)| (line, problem.split(':').next().unwrap().to_owned()));
            assert_eq!(refused, expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_to_its_end(text in "(?s)[a-z0-9\"'#/* \n\u{e9}]{0,40}") {
            let lines = text.matches('\n').count() + 1;
            for (line, word) in words(&text) {
                prop_assert!(line <= lines && text.contains(word));
            }
        }
    }
}
