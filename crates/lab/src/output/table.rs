//! A table as aligned text: the first columns to the left, numbers to the right.

/// Rows of texts under a head.
pub(crate) struct Table {
    /// How many columns, from the first on, are texts and stand to the left.
    left: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(left: usize, head: [&str; N]) -> Table {
        let head = head.iter().map(|name| (*name).to_owned()).collect();
        Table {
            left,
            rows: vec![head],
        }
    }

    /// With as many columns as the head has names.
    pub(crate) fn of(left: usize, head: Vec<String>) -> Table {
        Table {
            left,
            rows: vec![head],
        }
    }

    /// Adds a row. Missing cells are empty.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Whether there is nothing but the head.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// Takes out the columns, other than the first, which hold nothing in any row.
    pub(crate) fn without_empty_columns(mut self) -> Table {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let is_used = |column: usize| {
            let body = self.rows.iter().skip(1);
            body.filter_map(|row| row.get(column))
                .any(|cell| !cell.is_empty())
        };
        let used: Vec<bool> = (0..columns).map(|c| c == 0 || is_used(c)).collect();
        let left = used.iter().take(self.left).filter(|is| **is).count();
        for row in &mut self.rows {
            let mut column = 0;
            row.retain(|_| {
                column += 1;
                used[column - 1]
            });
        }
        Table { left, ..self }
    }

    /// One line for each row, indented by one column.
    pub(crate) fn lines(&self) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = widths.iter().enumerate().map(|(column, width)| {
                let cell = row.get(column).map_or("", String::as_str);
                if column < self.left {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
            let text = cells.collect::<Vec<_>>().join("  ");
            format!(" {}", text.trim_end())
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_are_aligned_by_characters_and_empty_ones_left_out() {
        let mut table = Table::new(1, ["name", "p50", "", "max"]);
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        table.row(row(["a", "1 µs", "", "10 ms"]));
        table.row(row(["long", "250 µs", "", "–"]));
        table.row(vec!["short".to_owned()]);
        let lines = table.without_empty_columns().lines();
        assert_eq!(
            lines,
            [
                " name      p50    max",
                " a        1 µs  10 ms",
                " long   250 µs      –",
                " short",
            ]
        );
    }
}
