//! A job's graph as a picture: each task to the right of all it depends on, and near them.

use super::format::escape_truncated;
use super::rows::Badge;

const WIDTH: u32 = 184;
const HEIGHT: u32 = 54;
const GAP_X: u32 = 56;
const GAP_Y: u32 = 16;
const EDGE: u32 = 4;

/// The most tasks that are drawn; with more, nothing could be told apart.
const MOST: usize = 120;

/// A task to draw.
pub(super) struct Item {
    pub(super) name: String,
    pub(super) badge: Badge,
    /// For an array, how many of its tasks have ended, and how many there are.
    pub(super) done: Option<(u64, u64)>,
    /// The indices of the tasks it depends on.
    pub(super) after: Vec<usize>,
}

/// The picture.
pub(super) struct Graph {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) boxes: Vec<Drawn>,
    /// The paths of the edges.
    pub(super) edges: Vec<String>,
    /// A description for screen readers.
    pub(super) words: String,
}

/// A box of the picture.
pub(super) struct Drawn {
    pub(super) name: String,
    pub(super) short: String,
    pub(super) badge: Badge,
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) line: String,
    /// The progress of an array, in pixels of the box.
    pub(super) progress: Option<u32>,
}

impl Drawn {
    pub(super) fn text_x(&self) -> u32 {
        self.x + 14
    }
    pub(super) fn name_y(&self) -> u32 {
        self.y + 23
    }
    pub(super) fn line_y(&self) -> u32 {
        self.y + 41
    }
    pub(super) fn bar_y(&self) -> u32 {
        self.y + HEIGHT - 5
    }
    pub(super) fn w(&self) -> u32 {
        WIDTH
    }
    pub(super) fn h(&self) -> u32 {
        HEIGHT
    }
}

/// Draws a graph; `None` for a single task or too many.
pub(super) fn draw(items: &[Item]) -> Option<Graph> {
    if items.len() < 2 || items.len() > MOST {
        return None;
    }
    let columns = columns(items);
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0) as u32;
    let height = rows * (HEIGHT + GAP_Y) - GAP_Y;
    let mut at = vec![(0, 0); items.len()];
    for (c, column) in columns.iter().enumerate() {
        let own = column.len() as u32 * (HEIGHT + GAP_Y) - GAP_Y;
        for (r, &item) in column.iter().enumerate() {
            let y = EDGE + (height - own) / 2 + r as u32 * (HEIGHT + GAP_Y);
            at[item] = (EDGE + c as u32 * (WIDTH + GAP_X), y);
        }
    }
    let edge = |from: usize, to: usize| {
        let ((x1, y1), (x2, y2)) = (at[from], at[to]);
        let (x1, y1, y2) = (x1 + WIDTH, y1 + HEIGHT / 2, y2 + HEIGHT / 2);
        let middle = (x1 + x2) / 2;
        format!("M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}")
    };
    let edges =
        items.iter().enumerate().flat_map(|(to, item)| item.after.iter().map(move |&from| (from, to)));
    let words = |item: &Item| match &item.after[..] {
        [] => format!("{} {}", item.name, item.badge.label()),
        after => {
            let names: Vec<_> = after.iter().map(|&a| items[a].name.as_str()).collect();
            format!("{} {}, after {}", item.name, item.badge.label(), names.join(" and "))
        }
    };
    Some(Graph {
        width: columns.len() as u32 * (WIDTH + GAP_X) - GAP_X + 2 * EDGE,
        height: height + 2 * EDGE,
        edges: edges.map(|(from, to)| edge(from, to)).collect(),
        words: items.iter().map(words).collect::<Vec<_>>().join("; "),
        boxes: items.iter().zip(&at).map(|(item, &(x, y))| drawn(item, x, y)).collect(),
    })
}

fn drawn(item: &Item, x: u32, y: u32) -> Drawn {
    let line = match item.done {
        Some((done, of)) => format!("{} · {done}/{of} done", item.badge.label()),
        None => item.badge.label(),
    };
    let full = u64::from(WIDTH - 28);
    Drawn {
        name: item.name.clone(),
        short: escape_truncated(&item.name, 18),
        badge: item.badge,
        x,
        y,
        line,
        progress: item.done.map(|(done, of)| (full * done / of.max(1)) as u32),
    }
}

/// The tasks of each column, from top to bottom.
fn columns(items: &[Item]) -> Vec<Vec<usize>> {
    let mut depth = vec![0usize; items.len()];
    // A job's graph has no cycle: as many rounds as tasks settle it, and usually two do.
    for _ in 0..items.len() {
        let mut settled = true;
        for (i, item) in items.iter().enumerate() {
            let right_of = item.after.iter().map(|&a| depth[a] + 1).max().unwrap_or(0);
            if right_of > depth[i] {
                depth[i] = right_of;
                settled = false;
            }
        }
        if settled {
            break;
        }
    }
    let mut columns = vec![Vec::new(); depth.iter().max().map_or(0, |d| d + 1)];
    for (i, &d) in depth.iter().enumerate() {
        columns[d].push(i);
    }
    let mut place = vec![0.0; items.len()];
    for column in &mut columns {
        let pull = |i: &usize| {
            let after = &items[*i].after;
            after.iter().map(|&a| place[a]).sum::<f64>() / after.len().max(1) as f64
        };
        column.sort_by(|a, b| pull(a).total_cmp(&pull(b)).then(a.cmp(b)));
        let middle = (column.len() as f64 - 1.0) / 2.0;
        for (row, &item) in column.iter().enumerate() {
            place[item] = row as f64 - middle;
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpyard_api::wire::State;

    fn item(name: &str, after: &[usize]) -> Item {
        Item { name: name.into(), badge: Badge::of(State::Ready, None), done: None, after: after.into() }
    }

    #[test]
    fn everything_stands_right_of_what_it_waits_for() {
        let items = [item("last", &[1, 2]), item("b", &[3]), item("c", &[3]), item("first", &[])];
        let graph = draw(&items).expect("a picture");
        for (to, item) in items.iter().enumerate() {
            for &from in &item.after {
                assert!(
                    graph.boxes[from].x + WIDTH < graph.boxes[to].x,
                    "{} → {}",
                    items[from].name,
                    item.name
                );
            }
        }
        assert_eq!(graph.edges.len(), 4);
        assert!(graph.words.contains("last ready, after b and c"), "{}", graph.words);
    }

    #[test]
    fn one_task_needs_no_picture_and_a_thousand_have_none() {
        assert!(draw(&[item("only", &[])]).is_none());
        assert!(draw(&(0..1000).map(|_| item("one", &[])).collect::<Vec<_>>()).is_none());
    }
}
