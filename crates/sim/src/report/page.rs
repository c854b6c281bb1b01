//! A study on one page: self-contained HTML with the plots in it, tables that sort, and under every figure how it was
//! computed. It asks for nothing from anywhere.

use super::plot::{Plot, Series, Theme, Unit, cdf, dots, escaped, gantt, strips};
use super::timeline::Timeline;
use super::{JobFigures, jain};
use std::fmt::Write;
use warpyard_core::{JobId, Time};

/// Parts of time in plots over time.
const PARTS: usize = 200;

/// What is on a page.
#[derive(Clone, Debug)]
pub struct ComparisonPage {
    /// What it is about.
    pub title: String,
    /// What was simulated, and how: a name and what it is.
    pub about: Vec<(String, String)>,
    /// The figures of each policy.
    pub summary: Table,
    /// What happened under each policy.
    pub policies: Vec<PolicyResults>,
}

/// What happened under one policy.
#[derive(Clone, Debug)]
pub struct PolicyResults {
    /// The policy.
    pub name: String,
    /// The jobs of all simulations.
    pub jobs: Vec<JobFigures>,
    /// The seed of each simulation, and how many of the jobs, from the beginning, are of it.
    pub seeds: Vec<(u64, usize)>,
    /// Who was where in the first simulation; none where that was not watched.
    pub timeline: Option<Timeline>,
}

/// A table that sorts.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What it shows and how that was computed.
    pub how: String,
    /// Each column: its heading and what it means.
    pub headings: Vec<(String, String)>,
    /// Each row: what is shown, and what it sorts by where that is a number.
    pub rows: Vec<Vec<(String, Option<f64>)>>,
}

/// What happened to the jobs of one user.
#[derive(Clone, Debug, PartialEq)]
pub struct UserFigures {
    /// Who.
    pub user: String,
    /// How many jobs ended.
    pub jobs: usize,
    /// Device time up to the last submission, over that of all users.
    pub share: f64,
    /// Device time in hours.
    pub gpu_hours: f64,
    /// The mean wait in seconds.
    pub wait_s: f64,
    /// The mean slowdown.
    pub slowdown: f64,
    /// The largest.
    pub worst: f64,
}

impl PolicyResults {
    /// Each user, in order of name.
    pub fn users(&self) -> Vec<UserFigures> {
        let Some(timeline) = &self.timeline else { return Vec::new() };
        let jobs = &self.jobs[..self.seeds.first().map_or(0, |(_, jobs)| *jobs)];
        let last = jobs.iter().map(|job| job.submitted_s).fold(0.0, f64::max);
        let early = timeline.device_seconds(Time::from_secs(last));
        let all = timeline.device_seconds(Time(u64::MAX));
        let total: f64 = early.iter().sum();
        let mut own: Vec<Vec<&JobFigures>> = vec![Vec::new(); timeline.users.len()];
        for job in jobs {
            if let Some(user) = timeline.user_of.get(&JobId(job.job)) {
                own[*user as usize].push(job);
            }
        }
        let figures = |(number, own): (usize, &Vec<&JobFigures>)| {
            let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
            let slowdowns: Vec<f64> = own.iter().filter_map(|job| job.slowdown).collect();
            UserFigures {
                user: match timeline.users[number].as_str() {
                    "" => "(no name)".to_owned(),
                    name => name.to_owned(),
                },
                jobs: slowdowns.len(),
                share: if total > 0.0 { early[number] / total } else { 0.0 },
                gpu_hours: all[number] / 3600.0,
                wait_s: mean(own.iter().filter_map(|job| job.wait_s).collect()),
                worst: slowdowns.iter().copied().fold(1.0, f64::max),
                slowdown: if slowdowns.is_empty() { 1.0 } else { mean(slowdowns) },
            }
        };
        let mut users: Vec<_> = own.iter().enumerate().map(figures).collect();
        users.sort_by_key(|user| natural(&user.user));
        users
    }

    /// The figures of every job as CSV, with the seed of its simulation.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn jobs_csv(&self, to: impl std::io::Write) -> std::io::Result<()> {
        let mut to = csv::WriterBuilder::new().has_headers(false).from_writer(to);
        to.write_record([
            "seed",
            "job",
            "name",
            "user",
            "submitted_s",
            "started_s",
            "ended_s",
            "outcome",
            "attempts",
            "gpu_seconds",
            "wait_s",
            "slowdown",
            "priority",
        ])?;
        let seeds = self.seeds.iter().flat_map(|(seed, jobs)| std::iter::repeat_n(*seed, *jobs));
        for of_a_seed in seeds.zip(&self.jobs) {
            to.serialize(of_a_seed)?;
        }
        to.flush()
    }

    fn values(&self, of: impl Fn(&JobFigures) -> Option<f64>) -> Vec<f64> {
        self.jobs.iter().filter_map(of).collect()
    }
}

/// Names with numbers in them in the order of the numbers.
fn natural(name: &str) -> (String, u64, String) {
    let digits = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name[digits.len()..].parse().unwrap_or(0);
    (digits.to_owned(), number, name.to_owned())
}

impl ComparisonPage {
    /// Every plot of the study.
    pub fn plots(&self, theme: Theme) -> Vec<Plot> {
        let mut plots = vec![
            self.distribution("waiting", "Waiting time", Unit::Seconds, |job| job.wait_s, WAIT, theme),
            self.distribution(
                "response",
                "Response time",
                Unit::Seconds,
                JobFigures::response_s,
                RESPONSE,
                theme,
            ),
            self.distribution(
                "completion",
                "Completion time",
                Unit::Seconds,
                JobFigures::completion_s,
                COMPLETION,
                theme,
            ),
            self.distribution("slowdown", "Slowdown", Unit::Times, |job| job.slowdown, SLOWDOWN, theme),
        ];
        plots.extend(self.over_time(theme));
        plots.extend(self.by_user(theme));
        plots.extend(self.gantts(theme));
        plots
    }

    fn distribution(
        &self,
        name: &str,
        title: &str,
        unit: Unit,
        of: impl Fn(&JobFigures) -> Option<f64>,
        how: &str,
        theme: Theme,
    ) -> Plot {
        let values: Vec<Vec<f64>> = self.policies.iter().map(|policy| policy.values(&of)).collect();
        let series = self.series(&values);
        let svg = cdf(title, unit, &series, theme);
        let how = format!(
            "{how} Each point gives the share of jobs that took at most that long. The axis is logarithmic; smaller values are drawn at its left edge."
        );
        Plot { name: name.to_owned(), title: title.to_owned(), how, svg }
    }

    /// Values of each policy, under its name.
    fn series<'a>(&'a self, values: &'a [Vec<f64>]) -> Vec<Series<'a>> {
        let named = self.policies.iter().zip(values);
        named.map(|(policy, values)| Series { name: &policy.name, values }).collect()
    }

    /// From the first start to the last end under any policy.
    fn span(&self) -> Option<(Time, Time)> {
        let spans = || self.policies.iter().filter_map(|policy| policy.timeline.as_ref()?.span());
        Some((spans().map(|(from, _)| from).min()?, spans().map(|(_, to)| to).max()?))
    }

    fn over_time(&self, theme: Theme) -> Option<Plot> {
        let (from, to) = self.span()?;
        let seen =
            || self.policies.iter().filter_map(|policy| Some((&policy.name, policy.timeline.as_ref()?)));
        let values: Vec<Vec<f64>> =
            seen().map(|(_, timeline)| timeline.utilisation(from, to, PARTS)).collect();
        let series: Vec<Series<'_>> =
            seen().zip(&values).map(|((name, _), values)| Series { name, values }).collect();
        let title = "Utilisation over time".to_owned();
        let svg = strips(&title, to.since(from).secs(), &series, theme);
        let how = format!(
            "The share of GPUs with at least one task running, in {PARTS} equal parts of the time from the first start to the last end under any of the policies; of the first simulation. The mean is over that same time, so a policy that ends later shows less."
        );
        Some(Plot { name: "utilisation".into(), title, how, svg })
    }

    fn by_user(&self, theme: Theme) -> Vec<Plot> {
        let users: Vec<Vec<UserFigures>> = self.policies.iter().map(PolicyResults::users).collect();
        let Some(names) = users.first().filter(|users| users.len() > 1) else { return Vec::new() };
        let names: Vec<String> = names.iter().map(|user| user.user.clone()).collect();
        let mut plots = Vec::new();
        type Value = fn(&UserFigures) -> f64;
        let drawn: [(&str, &str, Value, &str); 2] = [
            ("slowdown-by-user", "Slowdown by user", |user| user.slowdown, BY_USER),
            ("share-by-user", "Share of GPU time by user", |user| user.share * 100.0, SHARE),
        ];
        for (name, title, of, how) in drawn {
            let values: Vec<Vec<f64>> = users.iter().map(|users| users.iter().map(of).collect()).collect();
            let series = self.series(&values);
            let unit = if name == "share-by-user" { Unit::Percent } else { Unit::Times };
            let svg = dots(title, unit, &names, &series, theme);
            plots.push(Plot { name: name.into(), title: title.into(), how: how.into(), svg });
        }
        plots
    }

    fn gantts(&self, theme: Theme) -> Vec<Plot> {
        let Some((from, to)) = self.span() else { return Vec::new() };
        let draw = |(number, policy): (usize, &PolicyResults)| {
            let timeline = policy.timeline.as_ref()?;
            let title = format!("GPUs under {}", policy.name);
            let svg = gantt(&title, timeline, from, to, theme);
            Some(Plot {
                name: format!("gantt-{}-{}", number + 1, file_name(&policy.name)),
                title,
                how: GANTT.into(),
                svg,
            })
        };
        self.policies.iter().enumerate().filter_map(draw).collect()
    }

    /// Every user under every policy.
    pub fn user_table(&self) -> Option<Table> {
        let headings = [
            ("policy", "how tasks were ordered and placed"),
            ("user", "whose jobs"),
            ("jobs", "jobs that ended"),
            ("GPU hours", "running time times GPUs"),
            ("share", "GPU time until the last job came, over that of all users"),
            ("mean wait", "from being ready to the first start"),
            ("mean slowdown", "completion over own time"),
            ("worst slowdown", "the largest of them"),
        ];
        let mut rows = Vec::new();
        for policy in &self.policies {
            for user in policy.users() {
                let seconds = |s: f64| (spoken(s), Some(s));
                rows.push(vec![
                    (policy.name.clone(), None),
                    (user.user, None),
                    (user.jobs.to_string(), Some(user.jobs as f64)),
                    (format!("{:.1}", user.gpu_hours), Some(user.gpu_hours)),
                    (format!("{:.1} %", user.share * 100.0), Some(user.share)),
                    seconds(user.wait_s),
                    (format!("{:.2}", user.slowdown), Some(user.slowdown)),
                    (format!("{:.1}", user.worst), Some(user.worst)),
                ]);
            }
        }
        let headings = headings.map(|(heading, means)| (heading.to_owned(), means.to_owned())).to_vec();
        (!rows.is_empty()).then(|| Table {
            how: "Of the first simulation under each policy.".into(),
            headings,
            rows,
        })
    }

    /// How fair each policy was.
    pub fn fairness_table(&self) -> Table {
        let headings = [
            ("policy", "how tasks were ordered and placed"),
            (
                "Jain, users",
                "Jain's index of the users' mean slowdowns: 1 is equal, 1/n is one user bearing it all",
            ),
            ("Jain, jobs", "Jain's index of the slowdowns of all jobs"),
            ("mean slowdown", "completion over own time"),
            ("slowdown of 1 in 100", "99 in 100 jobs are not above it"),
            ("worst", "the largest"),
        ];
        let rows = self.policies.iter().map(|policy| {
            let mut slowdowns = policy.values(|job| job.slowdown);
            slowdowns.sort_unstable_by(f64::total_cmp);
            let n = slowdowns.len();
            let p99 = slowdowns.get((n * 99).div_ceil(100).max(1) - 1).copied().unwrap_or(1.0);
            let users: Vec<f64> = policy.users().iter().map(|user| user.slowdown).collect();
            let between = if users.is_empty() {
                ("–".to_owned(), None)
            } else {
                (format!("{:.3}", jain(&users)), Some(jain(&users)))
            };
            let number = |x: f64| (format!("{x:.2}"), Some(x));
            vec![
                (policy.name.clone(), None),
                between,
                (format!("{:.3}", jain(&slowdowns)), Some(jain(&slowdowns))),
                number(slowdowns.iter().sum::<f64>() / n.max(1) as f64),
                number(p99),
                number(slowdowns.last().copied().unwrap_or(1.0)),
            ]
        });
        let rows = rows.collect();
        let headings = headings.map(|(heading, means)| (heading.to_owned(), means.to_owned())).to_vec();
        let how = "A job's slowdown is its completion time over its own running time, all attempts together (10 s where that is shorter, from first start to end where it has several tasks): how much longer it took than alone on the GPUs. Jain's index of values x is (Σx)² / (n Σx²). Users are those of the first simulation, jobs those of all.";
        Table { how: how.into(), headings, rows }
    }

    /// The page.
    pub fn html(&self) -> String {
        let mut out = String::new();
        let title = escaped(&self.title);
        write!(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title><style>{}</style></head><body><main><h1>{title}</h1>", include_str!("page.css")).expect("a string takes all");
        out.push_str("<dl>");
        for (name, what) in &self.about {
            write!(out, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(what)).expect("a string takes all");
        }
        out.push_str("</dl>");
        section(&mut out, "Figures", |out| self.summary.html(out));
        let mut plots = self.plots(Theme::Page).into_iter().peekable();
        let mut drawings = |out: &mut String, wanted: &dyn Fn(&str) -> bool| {
            while let Some(plot) = plots.next_if(|plot| wanted(&plot.name)) {
                figure(out, &plot);
            }
        };
        section(&mut out, "Distributions", |out| {
            drawings(out, &|name| ["waiting", "response", "completion", "slowdown"].contains(&name))
        });
        section(&mut out, "Utilisation", |out| drawings(out, &|name| name == "utilisation"));
        section(&mut out, "Fairness", |out| {
            self.fairness_table().html(out);
            drawings(out, &|name| name.ends_with("by-user"));
            if let Some(table) = self.user_table() {
                table.html(out);
            }
        });
        section(&mut out, "GPUs over time", |out| drawings(out, &|_| true));
        writeln!(out, "<footer>Made by warpyard {}. Everything on this page is in this file.</footer></main><script>{}</script></body></html>", env!("CARGO_PKG_VERSION"), include_str!("page.js")).expect("a string takes all");
        out
    }
}

fn section(out: &mut String, title: &str, inside: impl FnOnce(&mut String)) {
    write!(out, "<section><h2>{title}</h2>").expect("a string takes all");
    inside(out);
    out.push_str("</section>");
}

fn figure(out: &mut String, plot: &Plot) {
    let wide = if plot.name.starts_with("gantt") { " class=\"wide\"" } else { "" };
    write!(
        out,
        "<figure id=\"{}\"{wide}><h3>{}</h3>{}<figcaption>{}</figcaption></figure>",
        escaped(&plot.name),
        escaped(&plot.title),
        plot.svg,
        escaped(&plot.how)
    )
    .expect("a string takes all");
}

impl Table {
    fn html(&self, out: &mut String) {
        out.push_str("<div class=\"table\"><table><thead><tr>");
        for (at, (heading, means)) in self.headings.iter().enumerate() {
            let number = self.rows.first().is_some_and(|row| row.get(at).is_some_and(|(_, by)| by.is_some()));
            write!(
                out,
                "<th scope=\"col\"{} title=\"{}\"><button type=\"button\">{}</button></th>",
                if number { " class=\"n\"" } else { "" },
                escaped(means),
                escaped(heading)
            )
            .expect("a string takes all");
        }
        out.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            out.push_str("<tr>");
            for (text, by) in row {
                // An interval stands below its mean, or a dozen columns of both would not fit the page.
                let text = match text.split_once(" ± ") {
                    Some((mean, half)) => format!("{}<small>± {}</small>", escaped(mean), escaped(half)),
                    None => escaped(text).to_string(),
                };
                match by {
                    Some(by) => write!(out, "<td class=\"n\" data-by=\"{by}\">{text}</td>"),
                    None => write!(out, "<td>{text}</td>"),
                }
                .expect("a string takes all");
            }
            out.push_str("</tr>");
        }
        write!(out, "</tbody></table></div><p class=\"how\">{} Click a heading to sort; hover over it for its definition.</p>", escaped(&self.how)).expect("a string takes all");
    }

    /// The same as CSV; numbers in full.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn csv(&self, to: impl std::io::Write) -> std::io::Result<()> {
        let mut to = csv::Writer::from_writer(to);
        to.write_record(self.headings.iter().map(|(heading, _)| heading))?;
        for row in &self.rows {
            to.write_record(
                row.iter().map(|(text, by)| by.map_or_else(|| text.clone(), |by| by.to_string())),
            )?;
        }
        to.flush()
    }
}

/// A name that can be part of a file's.
pub fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

/// Seconds as people say them.
fn spoken(seconds: f64) -> String {
    match seconds {
        s if s < 60.0 => format!("{s:.1} s"),
        s if s < 3600.0 => format!("{:.1} min", s / 60.0),
        s if s < 86_400.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} d", s / 86_400.0),
    }
}

const WAIT: &str =
    "From being ready to run to the first start, of every job that started, in all simulations.";
const RESPONSE: &str = "From submission to the first start, of every job that started, in all simulations.";
const COMPLETION: &str = "From submission to the end, of every job that ended, in all simulations.";
const SLOWDOWN: &str = "Completion time over the job's own running time, all attempts together (over 10 s where that is shorter, from first start to end where the job has several tasks), at least 1, of every job that ended, in all simulations.";
const BY_USER: &str = "The mean slowdown of each user's jobs, of the first simulation: where the marks of a policy lie apart, it served users unequally.";
const SHARE: &str = "GPU time of each user's tasks from the beginning until the last job was submitted, over that of all users, of the first simulation: who got the GPUs while there was a choice. Tasks that share a GPU count it each.";
const GANTT: &str = "A row is a GPU; a bar is a task running on it, with its job's number, its user by colour; tasks that share a GPU stand one below another. Where there are too many to tell apart, darker is busier. Of the first simulation; the same time for all policies.";
