//! Tables of text.

/// A table with a header line. No borders: scripts can split each line at its spaces.
#[cfg(feature = "terminal")]
pub(crate) fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    use comfy_table::{Table, presets::NOTHING};

    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header.to_vec());
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

/// Without the feature `terminal`, tabs separate the columns.
#[cfg(not(feature = "terminal"))]
pub(crate) fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let lines = std::iter::once(header.join("\t")).chain(rows.map(|row| row.join("\t")));
    lines.collect::<Vec<_>>().join("\n")
}
