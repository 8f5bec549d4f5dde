//! `cargo xtask bench plot`: the guide's picture of the ratios.
//!
//! Each store's benchmark writes its ratios to `target/bench/STORE.json`; this program draws the last ones.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use syncguard_bench::folder;

const PICTURE: &str = "../../crates/syncguard/src/guide/pictures/ratios.svg";

/// The name of each store's report, its name in the picture, and how many callers at once "many" are.
const STORES: [(&str, &str, usize); 5] = [
    ("redis", "Redis", 64),
    ("postgres", "PostgreSQL", 64),
    ("etcd", "etcd", 64),
    ("firestore", "Firestore", 16),
    ("sqlite", "SQLite", 64),
];

const WIDTH: f64 = 760.0;
/// The bars lie between these, on a scale that doubles.
const LEFT: f64 = 340.0;
const RIGHT: f64 = 640.0;
const LEAST: f64 = 0.25;
const MOST: f64 = 32.0;

const HEADING: f64 = 34.0;
const ROW: f64 = 40.0;
const TOP: f64 = 44.0;

const STYLE: &str = "<style>
svg:root { color: #1f2328 } svg:root .sg-paper { fill: #ffffff }
@media (prefers-color-scheme: dark) { svg:root { color: #e6edf3 } svg:root .sg-paper { fill: #0d1117 } }
</style>";

#[derive(Deserialize)]
struct Report {
    ratios: Vec<Ratio>,
}

#[derive(Deserialize)]
struct Ratio {
    callers: usize,
    other: String,
    ratio: f64,
}

fn main() -> Result<()> {
    let mut stores = Vec::new();
    for (file, name, many) in STORES {
        let path = folder()?.join(format!("{file}.json"));
        let read = || anyhow::Ok(serde_json::from_slice::<Report>(&std::fs::read(&path)?)?);
        let report = read()
            .with_context(|| format!("{}: run `cargo xtask bench {file}` first", path.display()))?;
        stores.push((name, many, report.ratios));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PICTURE);
    std::fs::write(&path, picture(&stores)?)?;
    println!("wrote {}", path.canonicalize()?.display());
    Ok(())
}

fn picture(stores: &[(&str, usize, Vec<Ratio>)]) -> Result<String> {
    let (mut body, mut y) = (String::new(), TOP);
    for (store, many, ratios) in stores {
        y += HEADING;
        writeln!(body, "<text x=\"16\" y=\"{:.0}\" font-weight=\"600\">{store}</text>", y - 10.0)?;
        let single = ratios.iter().filter(|ratio| ratio.callers == 1);
        for Ratio { other, ratio, .. } in single {
            let with_many = ratios.iter().find(|r| r.callers == *many && r.other == *other);
            let with_many = with_many.with_context(|| format!("{store}: no {many} callers"))?;
            writeln!(body, "<text x=\"16\" y=\"{:.0}\">{other}</text>", y + 16.0)?;
            bar(&mut body, y, *ratio, "1 caller", "#3b82c4")?;
            bar(&mut body, y + 15.0, with_many.ratio, &format!("{many} callers"), "#2da44e")?;
            y += ROW;
        }
    }
    let height = y + 16.0;
    let mut scale = String::new();
    for times in [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0] {
        let x = position(times);
        let opacity = if times == 1.0 { 1.0 } else { 0.25 };
        writeln!(
            scale,
            "<path d=\"M{x:.1} {TOP}V{:.0}\" stroke=\"#8b949e\" stroke-opacity=\"{opacity}\"/>\n\
             <text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\" font-size=\"12\">{times}</text>",
            height - 12.0,
            TOP - 8.0
        )?;
    }
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
         style=\"max-width:100%;height:auto\" role=\"img\" font-family=\"system-ui, sans-serif\" \
         font-size=\"14\" fill=\"currentColor\">\n\
         <title>Cycles of acquire and release that SyncGuard does for each cycle of the alternative, store by store: \
         above 1, SyncGuard is faster.</title>\n{STYLE}\n\
         <rect class=\"sg-paper\" width=\"{WIDTH}\" height=\"{height:.0}\" rx=\"8\" fill=\"none\"/>\n\
         <text x=\"16\" y=\"{:.0}\">cycles for each cycle of …</text>\n{scale}{body}</svg>\n",
        TOP - 8.0
    ))
}

/// A bar from 1 to the ratio, with the ratio beside it.
fn bar(to: &mut String, y: f64, ratio: f64, callers: &str, color: &str) -> Result<()> {
    ensure!(ratio.is_finite() && ratio > 0.0, "a ratio of {ratio}");
    let (one, end) = (position(1.0), position(ratio));
    let (x, width) = (one.min(end), (end - one).abs().max(1.0));
    let (text, anchor) = if end < one { (end - 6.0, "end") } else { (end + 6.0, "start") };
    let times = if ratio > MOST { format!("over {MOST}") } else { format!("{ratio:.2}") };
    writeln!(
        to,
        "<rect x=\"{x:.1}\" y=\"{y:.0}\" width=\"{width:.1}\" height=\"12\" rx=\"2\" fill=\"{color}\"/>\n\
         <text x=\"{text:.1}\" y=\"{:.0}\" text-anchor=\"{anchor}\" font-size=\"11\">{times} · {callers}</text>",
        y + 10.0
    )?;
    Ok(())
}

fn position(ratio: f64) -> f64 {
    let share = (ratio.clamp(LEAST, MOST) / LEAST).log2() / (MOST / LEAST).log2();
    LEFT + share * (RIGHT - LEFT)
}
