//! Output files of simulations: a report, tables as CSV, and every plot as SVG and PNG.

use crate::input::write_file;
use crate::usage_error::UsageError;
use clap::Args;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use warpyard_sim::report::page::{ComparisonPage, file_name};
use warpyard_sim::report::plot::{Plot, Theme};
use warpyard_sim::report::timeline::Timeline;

/// Files to write beside the answer.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Files")]
pub(crate) struct Outputs {
    /// Write a report with distributions, utilisation, fairness and a Gantt chart of the GPUs: one self-contained HTML
    /// file
    #[arg(long, value_name = "FILE")]
    report: Option<String>,
    /// Write the figures of policies, users, jobs and utilisation as CSV files
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
    /// Write every plot as SVG and PNG
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

/// A picture is drawn at this many pixels for each of its units.
const SCALE: f32 = 2.0;

/// Latin letters, digits and a few signs of DejaVu Sans, so that a picture has its words wherever it is drawn.
const FONT: &[u8] = include_bytes!("../../assets/DejaVuSans-subset.ttf");

impl Outputs {
    /// Whether any output file was asked for.
    pub(crate) fn wanted(&self) -> bool {
        self.report.is_some() || self.csv.is_some() || self.plots.is_some()
    }

    /// Writes the output files.
    pub(crate) fn write(&self, study: &ComparisonPage) -> anyhow::Result<()> {
        if let Some(file) = &self.report {
            write_file(file, |to| to.write_all(study.html().as_bytes()))?;
        }
        if let Some(dir) = &self.csv {
            make(dir)?;
            tables(dir, study)?;
        }
        if let Some(dir) = &self.plots {
            make(dir)?;
            for plot in study.plots(Theme::Picture) {
                draw(dir, &plot)?;
            }
        }
        Ok(())
    }
}

fn make(dir: &Path) -> Result<(), UsageError> {
    std::fs::create_dir_all(dir)
        .map_err(|source| UsageError::UnwritableFile { file: dir.display().to_string(), source })
}

fn path_of(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

fn tables(dir: &Path, study: &ComparisonPage) -> anyhow::Result<()> {
    write_file(&path_of(dir, "policies.csv"), |to| study.summary.csv(to))?;
    write_file(&path_of(dir, "fairness.csv"), |to| study.fairness_table().csv(to))?;
    if let Some(users) = study.user_table() {
        write_file(&path_of(dir, "users.csv"), |to| users.csv(to))?;
    }
    for (number, policy) in (1..).zip(&study.policies) {
        let name = format!("{number}-{}", file_name(&policy.name));
        write_file(&path_of(dir, &format!("jobs-{name}.csv")), |to| policy.jobs_csv(to))?;
        if let Some(timeline) = &policy.timeline {
            write_file(&path_of(dir, &format!("utilisation-{name}.csv")), |to| utilisation(timeline, to))?;
        }
    }
    Ok(())
}

fn utilisation(timeline: &Timeline, to: &mut dyn std::io::Write) -> std::io::Result<()> {
    const PARTS: usize = 1000;
    writeln!(to, "from_s,utilisation")?;
    let Some((from, until)) = timeline.span() else { return Ok(()) };
    let part = until.since(from).secs() / PARTS as f64;
    for (at, share) in timeline.utilisation(from, until, PARTS).into_iter().enumerate() {
        writeln!(to, "{},{share}", from.secs() + at as f64 * part)?;
    }
    Ok(())
}

/// A plot as it is, and as pixels.
fn draw(dir: &Path, plot: &Plot) -> anyhow::Result<()> {
    for extension in ["svg", "png"] {
        write_picture(&path_of(dir, &format!("{}.{extension}", plot.name)), &plot.svg)?;
    }
    Ok(())
}

/// Keeps a drawing in a file: as pixels if the file is called so, else as it is.
pub(crate) fn write_picture(file: &str, svg: &str) -> anyhow::Result<()> {
    match Path::new(file).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png")) {
        true => {
            let png = pixels(svg, file)?;
            write_file(file, |to| to.write_all(&png))
        }
        false => write_file(file, |to| to.write_all(svg.as_bytes())),
    }
}

fn pixels(svg: &str, file: &str) -> anyhow::Result<Vec<u8>> {
    use resvg::{tiny_skia, usvg};
    let mut options = usvg::Options { font_family: "DejaVu Sans".into(), ..usvg::Options::default() };
    let fonts = Arc::make_mut(&mut options.fontdb);
    fonts.load_font_data(FONT.to_vec());
    fonts.set_sans_serif_family("DejaVu Sans");
    let tree = usvg::Tree::from_str(svg, &options)?;
    let size = tree.size();
    let (width, height) = ((size.width() * SCALE).ceil() as u32, (size.height() * SCALE).ceil() as u32);
    let mut pixels =
        tiny_skia::Pixmap::new(width, height).ok_or_else(|| UsageError::EmptyPlot(file.to_owned()))?;
    resvg::render(&tree, tiny_skia::Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    Ok(pixels.encode_png()?)
}
