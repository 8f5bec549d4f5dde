//! The widths of the columns, and texts that are cut to a width.

use ratatui::text::Span;

/// A column of the table, in the order from left to right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Key,
    Holder,
    Fence,
    Rate,
    Age,
    Left,
    Note,
}

impl Column {
    pub(super) const ALL: [Self; 7] =
        [Self::Key, Self::Holder, Self::Fence, Self::Rate, Self::Age, Self::Left, Self::Note];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Key => "KEY",
            Self::Holder => "HOLDER",
            Self::Fence => "FENCE",
            Self::Rate => "PER SEC",
            Self::Age => "AGE",
            Self::Left => "LEFT",
            Self::Note => "NOTE",
        }
    }

    /// Numbers and times are at the right of their column.
    pub(super) fn is_at_the_right(self) -> bool {
        matches!(self, Self::Fence | Self::Rate | Self::Age | Self::Left)
    }

    /// The least width of the column if its widest text has this one.
    fn least(self, natural: usize) -> usize {
        match self {
            Self::Key => natural.min(24),
            Self::Holder => natural.min(16),
            Self::Note => natural.min(12),
            Self::Fence | Self::Rate | Self::Age | Self::Left => natural,
        }
    }
}

/// The columns between two columns of the table.
pub(super) const GAP: usize = 2;

/// The columns that fit into a width, with their widths. `natural` has the widest text of each
/// column, 0 for a column without texts.
pub(super) fn columns(natural: [usize; 7], width: usize) -> Vec<(Column, usize)> {
    let natural = |column: Column| natural.get(column as usize).copied().unwrap_or(0);
    let mut chosen: Vec<(Column, usize)> = Column::ALL
        .into_iter()
        .filter(|column| natural(*column) > 0)
        .map(|column| (column, column.least(natural(column))))
        .collect();
    // A note is shown if keys and holders need not be cut for it.
    let cut =
        [Column::Key, Column::Holder].map(|column| natural(column) - column.least(natural(column)));
    if total(&chosen) + cut.iter().sum::<usize>() > width {
        chosen.retain(|(column, _)| *column != Column::Note);
    }
    for optional in [Column::Rate, Column::Fence, Column::Left, Column::Holder, Column::Age] {
        if total(&chosen) > width {
            chosen.retain(|(column, _)| *column != optional);
        }
    }
    if let [(Column::Key, only)] = chosen.as_mut_slice() {
        *only = (*only).min(width);
    }
    for wide in [Column::Key, Column::Holder, Column::Note] {
        let room = width.saturating_sub(total(&chosen));
        if let Some((_, given)) = chosen.iter_mut().find(|(column, _)| *column == wide) {
            *given = natural(wide).min(*given + room);
        }
    }
    chosen
}

fn total(chosen: &[(Column, usize)]) -> usize {
    let gaps = GAP * chosen.len().saturating_sub(1);
    chosen.iter().map(|(_, width)| width).sum::<usize>() + gaps
}

/// The columns of the terminal that a text takes.
pub(super) fn width_of(text: &str) -> usize {
    Span::raw(text).width()
}

/// The text, or its beginning and "…".
pub(super) fn cut(text: &str, width: usize) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let mut shown = String::new();
    for char in text.chars() {
        shown.push(char);
        if width_of(&shown) >= width {
            shown.pop();
            break;
        }
    }
    if width > 0 {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_cut_says_so() {
        for (text, width, shown) in [
            ("nightly", 7, "nightly"),
            ("nightly", 6, "night…"),
            ("nightly", 1, "…"),
            ("nightly", 0, ""),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("日本語", 1, "…"),
        ] {
            assert_eq!(cut(text, width), shown, "{text} {width}");
        }
    }

    #[test]
    fn what_matters_least_goes_first() {
        let natural = [40, 20, 5, 7, 6, 6, 30];
        let of = |width| -> Vec<Column> {
            columns(natural, width).into_iter().map(|(column, _)| column).collect()
        };
        assert_eq!(of(126), Column::ALL);
        assert_eq!(of(90), &Column::ALL[..6]);
        assert_eq!(of(70), [Column::Key, Column::Holder, Column::Fence, Column::Age, Column::Left]);
        assert_eq!(of(58), [Column::Key, Column::Holder, Column::Age, Column::Left]);
        assert_eq!(of(10), [Column::Key]);
        for width in 1..200 {
            let used = total(&columns(natural, width));
            assert!(used <= width.min(126), "{width}: {used}");
            assert!(used >= width.min(126) || width > 90 || !of(width).contains(&Column::Note));
        }
        assert_eq!(
            columns(natural, 200).iter().map(|(_, width)| *width).collect::<Vec<_>>(),
            natural
        );
    }
}
