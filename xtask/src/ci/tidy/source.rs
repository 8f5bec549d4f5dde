//! Telling a library's code from its comments and tests, as far as the house's style needs it.

/// One file, taken apart.
#[derive(Default)]
pub(super) struct Source<'a> {
    /// The lines, numbered, that are code of the library itself.
    pub(super) code: Vec<(usize, &'a str)>,
    /// The modules in files of their own that are for tests only.
    pub(super) test_modules: Vec<&'a str>,
}

/// Where a `#[cfg(test)]` has led to.
enum Place {
    Code,
    /// Between the attribute and its item.
    BeforeItem,
    /// Within the item's braces, this deep.
    Item(i64),
}

impl<'a> Source<'a> {
    pub(super) fn parse(text: &'a str) -> Self {
        let mut source = Self::default();
        let mut place = Place::Code;
        for (number, line) in (1..).zip(text.lines()) {
            let line = without_comment(line).trim();
            place = match place {
                Place::Code if line.starts_with("#[cfg(test)]") => Place::BeforeItem,
                Place::Code => {
                    source.code.push((number, line));
                    Place::Code
                }
                Place::BeforeItem if line.is_empty() || line.starts_with("#[") => Place::BeforeItem,
                Place::BeforeItem => {
                    source.test_modules.extend(module_elsewhere(line));
                    inside(0, line)
                }
                Place::Item(depth) => inside(depth, line),
            };
        }
        source
    }
}

/// The name in "mod NAME;".
fn module_elsewhere(line: &str) -> Option<&str> {
    let (_, name) = line.strip_suffix(';')?.split_once("mod ")?;
    Some(name)
}

/// Where an item goes on after `line`, which starts `depth` braces deep in it.
fn inside(depth: i64, line: &str) -> Place {
    let depth = line.chars().fold(depth, |depth, c| match c {
        '{' => depth + 1,
        '}' => depth - 1,
        _ => depth,
    });
    if depth == 0 && line.ends_with([';', '}']) { Place::Code } else { Place::Item(depth) }
}

/// A line of code up to its comment.
pub(super) fn without_comment(line: &str) -> &str {
    let line = line.trim_start();
    if line.starts_with("//") {
        return "";
    }
    line.split_once(" // ").map_or(line, |(code, _)| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_out_comments_and_test_items() {
        let text = "\
//! doc
use a;
#[cfg(test)]
mod tests;
fn f() { // why
    g(); // because
}
#[cfg(test)]
#[allow(x)]
fn helper(
    a: u8,
) {
    if a { b } else { c }
}
/// doc
fn g() {}

#[cfg(test)]
mod more {
    fn t() {
    }
}
fn last() {}";
        let source = Source::parse(text);
        assert_eq!(source.test_modules, ["tests"]);
        let code = source.code.iter().filter(|(_, line)| !line.is_empty());
        assert_eq!(
            code.copied().collect::<Vec<_>>(),
            [
                (2, "use a;"),
                (5, "fn f() {"),
                (6, "g();"),
                (7, "}"),
                (16, "fn g() {}"),
                (23, "fn last() {}")
            ]
        );
    }
}
