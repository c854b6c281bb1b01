//! Random instances: every goal's answer is feasible and proved optimal by its own prices, a general LP solver agrees,
//! and nothing stands idle that someone could use.

mod support;

use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettingsBuilder, DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus};
use support::Random;
use warpyard_allocate::{
    Answer, Entities, GOALS, Instance, Job, Options, Profile, Sense, Sharing, ThroughputTable, Types, check,
    goal,
};

/// A small instance with whatever makes solvers stumble: few GPUs or many, zeros, wide jobs, identical jobs.
fn odd(seed: u64) -> Instance {
    let mut random = Random(seed);
    let k = 1 + random.below(4);
    let counts: Vec<u32> = (0..k).map(|_| 1 + random.below(12) as u32).collect();
    let n = 1 + random.below(24);
    let mut jobs: Vec<Job> = Vec::new();
    while jobs.len() < n {
        let id = jobs.len() as u64;
        if let Some(job) = jobs.last().filter(|_| random.below(4) == 0) {
            jobs.push(Job { id, ..job.clone() });
            continue;
        }
        let speed = |random: &mut Random| if random.below(6) == 0 { 0.0 } else { 0.1 + 50.0 * random.unit() };
        let job = Job {
            gpus: 1 + random.below(3) as u32,
            weight: [1.0, 1.0, 3.0, 0.25][random.below(4)],
            steps: Some(1.0 + (1e6 * random.unit()).round()),
            age_s: (1e4 * random.unit()).round(),
            isolated_time_s: if random.below(2) == 0 { 0.0 } else { (1e4 * random.unit()).round() },
            deadline_s: (random.below(3) == 0).then(|| 1e3 + 1e5 * random.unit()),
            ..Job::new(id, (0..k).map(|_| speed(&mut random)).collect())
        };
        if job.throughputs.iter().zip(&counts).any(|(t, c)| *t > 0.0 && *c >= job.gpus) {
            jobs.push(job);
        }
    }
    let mut types = support::types(&counts);
    types.iter_mut().for_each(|t| t.cost_per_hour = Some(0.1 + 3.0 * random.unit()));
    let mut instance = Instance { types, jobs, pairs: None, entities: None };
    instance.entities = Some(organisations(&instance, &mut random));
    instance
}

/// Organisations of two depths over all jobs.
fn organisations(instance: &Instance, random: &mut Random) -> Entities {
    let policy = |random: &mut Random| if random.below(2) == 0 { Sharing::Fair } else { Sharing::Fifo };
    let (mut top, mut inner) = (Entities::default(), Entities::default());
    for (entities, name) in [(0, "a"), (0, "b"), (0, "c"), (1, "x"), (1, "y")] {
        let entities = if entities == 0 { &mut top } else { &mut inner };
        entities.weights.insert(name.into(), 1.0 + random.below(3) as f64);
        entities.policies.insert(name.into(), policy(random));
    }
    for job in &instance.jobs {
        let (entities, name) = match random.below(4) {
            0 => (&mut top, "a"),
            1 => (&mut top, "b"),
            2 => (&mut inner, "x"),
            _ => (&mut inner, "y"),
        };
        entities.jobs.entry(name.into()).or_default().push(job.id);
    }
    for (entities, name) in [("a", true), ("b", true), ("x", false), ("y", false)].map(|(n, t)| (t, n)) {
        (if entities { &mut top } else { &mut inner }).jobs.entry(name.into()).or_default();
    }
    top.entities.insert("c".into(), inner);
    top
}

#[test]
fn every_goal_is_feasible_and_proved_on_odd_instances() {
    let mut wrong = Vec::new();
    // In 1999 a type ran out within the slack of those stopped before; in 5118 a job stood a rounding past a kink; in
    // 6159 and 13810 hardly anything was left to the last stage; in 19349 a stage ended within rounding of the next.
    for seed in (0..150).chain([1999, 5118, 6159, 13810, 19349]) {
        let instance = odd(seed);
        for goal in GOALS {
            let options = Options::default();
            let solved = goal.solve(&instance, options).map_err(|error| error.to_string());
            let checked = solved.and_then(|answer| {
                assert!(answer.allocation.flat().iter().chain(&answer.normalised).all(|x| x.is_finite()));
                check(&instance, goal, options, &answer).map_err(|error| error.to_string())
            });
            wrong.extend(checked.err().map(|error| format!("seed {seed}, {}: {error}", goal.name)));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn goals_that_do_not_know_types_are_proved_too() {
    let blind = Options { types: Types::Blind, ..Options::default() };
    let names = ["max-min", "max-min-fill", "hierarchical", "finish-time", "makespan", "throughput", "cost"];
    for seed in 2000..2060 {
        let instance = odd(seed);
        for goal in names.map(|name| goal(name).expect("a goal")) {
            let answer =
                goal.solve(&instance, blind).unwrap_or_else(|e| panic!("seed {seed}, {}: {e}", goal.name));
            check(&instance, goal, blind, &answer)
                .unwrap_or_else(|e| panic!("seed {seed}, {}: {e}", goal.name));
        }
    }
}

/// The instance with profiles and a table of pairs: some gain by sharing, some lose, some cannot.
fn with_pairs(mut instance: Instance, seed: u64) -> Instance {
    let mut random = Random(seed ^ 0x5eed);
    let mut table = ThroughputTable::default();
    for job in &mut instance.jobs {
        job.profile = Some(format!("{:?} on {}", job.throughputs, job.gpus));
    }
    for t in 0..instance.types.len() {
        for (i, one) in instance.jobs.iter().enumerate() {
            for other in instance.jobs[i..].iter().filter(|other| other.gpus == one.gpus) {
                let profile =
                    |job: &Job| Profile { name: job.profile.clone().expect("a profile"), gpus: job.gpus };
                let [a, b] = if i % 3 == 0 { [0.0, 0.0] } else { [random.unit(), random.unit()] };
                let both = [
                    a * one.throughputs[t],
                    if one.profile == other.profile { a } else { b } * other.throughputs[t],
                ];
                let name = &instance.types[t].name;
                if table.together(name, &profile(one), &profile(other)).is_none() {
                    table.insert_pair(name, profile(one), profile(other), both);
                }
            }
        }
    }
    instance.pairs = Some(table);
    instance
}

#[test]
fn sharing_is_feasible_proved_and_never_worse() {
    let sharing = Options { sharing: true, ..Options::default() };
    for seed in 3000..3060 {
        let mut instance = with_pairs(odd(seed), seed);
        if seed % 2 == 0 {
            instance.jobs.iter_mut().for_each(|job| job.deadline_s = None);
        }
        for goal in
            ["max-min", "max-min-fill", "hierarchical", "finish-time", "makespan", "throughput", "cost"]
                .map(|name| goal(name).expect("a goal"))
        {
            let answer =
                goal.solve(&instance, sharing).unwrap_or_else(|e| panic!("seed {seed}, {}: {e}", goal.name));
            check(&instance, goal, sharing, &answer)
                .unwrap_or_else(|e| panic!("seed {seed}, {}: {e}", goal.name));
            assert_ne!(answer.certificate, warpyard_allocate::Certificate::Rule, "{}", goal.name);
            let alone = goal.solve(&instance, Options::default()).expect("an answer").objective;
            // With deadlines, more of them kept may leave less value.
            let deadlines = goal.name == "cost" && instance.jobs.iter().any(|job| job.deadline_s.is_some());
            // Nor is an organisation's total what its filling is about.
            let better = deadlines
                || goal.name == "hierarchical"
                || match goal.sense {
                    Sense::Max => answer.objective >= alone * (1.0 - 1e-6),
                    Sense::Min => answer.objective <= alone * (1.0 + 1e-6),
                };
            assert!(better, "seed {seed}, {}: {} sharing, {alone} alone", goal.name, answer.objective);
        }
    }
}

/// One organisation of everyone, sharing fairly inside, is filled as everyone is without organisations.
#[test]
fn with_sharing_one_organisation_of_all_is_filled_level_by_level() {
    let sharing = Options { sharing: true, ..Options::default() };
    for seed in 3100..3130 {
        let mut instance = with_pairs(odd(seed), seed);
        let all = instance.jobs.iter().map(|job| job.id).collect();
        instance.entities = Some(Entities {
            weights: [("all".to_owned(), 2.0)].into(),
            policies: [("all".to_owned(), Sharing::Fair)].into(),
            jobs: [("all".to_owned(), all)].into(),
            entities: Default::default(),
        });
        let solve = |name: &str| goal(name).expect("a goal").solve(&instance, sharing).expect("an answer");
        let (filled, nested) = (solve("max-min-fill"), solve("hierarchical"));
        for ((job, flat), level) in instance.jobs.iter().zip(&filled.normalised).zip(&nested.normalised) {
            let near = (flat - level).abs() <= 2e-4 * flat.max(1e-3);
            assert!(near, "seed {seed}, job {}: {flat} filled, {level} in an organisation", job.id);
        }
    }
}

#[test]
fn nothing_stands_idle_that_someone_could_use() {
    for seed in 0..150 {
        let instance = odd(seed);
        for name in ["max-min", "max-min-fill", "finish-time", "makespan", "hierarchical"] {
            let answer = goal(name).expect("a goal").solve(&instance, Options::default());
            let answer = answer.unwrap_or_else(|error| panic!("seed {seed}, {name}: {error}"));
            assert_eq!(idle(&instance, &answer), None, "seed {seed}, {name}");
        }
    }
}

/// A type with something free and a job with time left that could use it.
fn idle(instance: &Instance, answer: &Answer) -> Option<(usize, usize)> {
    for (j, t) in instance.types.iter().enumerate() {
        let used: f64 = instance
            .jobs
            .iter()
            .zip(answer.allocation.rows())
            .map(|(job, x)| f64::from(job.gpus) * x[j])
            .sum();
        if used > f64::from(t.count) - 1e-6 {
            continue;
        }
        for (m, (job, x)) in instance.jobs.iter().zip(answer.allocation.rows()).enumerate() {
            if job.throughputs[j] > 0.0 && job.gpus <= t.count && x.iter().sum::<f64>() < 1.0 - 1e-6 {
                return Some((j, m));
            }
        }
    }
    None
}

/// A linear program over the shares (and one more variable, last), for a general solver.
struct Program {
    gain: Vec<f64>,
    rows: Vec<(Vec<(usize, f64)>, f64)>,
}

impl Program {
    fn new(instance: &Instance) -> Self {
        let (n, k) = (instance.jobs.len(), instance.types.len());
        let variables = n * k + 1;
        let mut rows: Vec<(Vec<(usize, f64)>, f64)> =
            (0..variables).map(|v| (vec![(v, -1.0)], 0.0)).collect();
        for (m, job) in instance.jobs.iter().enumerate() {
            rows.push(((0..k).map(|j| (m * k + j, 1.0)).collect(), 1.0));
            for (j, t) in instance.types.iter().enumerate() {
                if job.gpus > t.count {
                    rows.push((vec![(m * k + j, 1.0)], 0.0));
                }
            }
        }
        for (j, t) in instance.types.iter().enumerate() {
            let entries =
                instance.jobs.iter().enumerate().map(|(m, job)| (m * k + j, f64::from(job.gpus))).collect();
            rows.push((entries, f64::from(t.count)));
        }
        Self { gain: vec![0.0; variables], rows }
    }

    /// Demands speed ≥ rate·last + least of job `m`.
    fn demand(&mut self, instance: &Instance, m: usize, rate: f64, least: f64) {
        let k = instance.types.len();
        let scale = 1.0 / instance.jobs[m].throughputs.iter().copied().fold(0.0, f64::max);
        let speeds = instance.jobs[m].throughputs.iter().enumerate().map(|(j, t)| (m * k + j, -t * scale));
        let entries = speeds.chain([(self.gain.len() - 1, rate * scale)]).collect();
        self.rows.push((entries, -least * scale));
    }

    fn optimum(&self) -> f64 {
        let (mut cells, n) = (Vec::new(), self.gain.len());
        for (row, (entries, _)) in self.rows.iter().enumerate() {
            cells.extend(entries.iter().map(|&(column, a)| (column, row, a)));
        }
        cells.sort_by_key(|&(column, row, _)| (column, row));
        let (columns, (rows, values)): (Vec<_>, (Vec<_>, Vec<_>)) =
            cells.into_iter().map(|(c, r, a)| (c, (r, a))).unzip();
        let starts = (0..=n).map(|c| columns.partition_point(|x| *x < c)).collect();
        let a = CscMatrix::new(self.rows.len(), n, starts, rows, values);
        let largest = self.gain.iter().fold(0.0_f64, |a, b| a.max(b.abs()));
        let cost: Vec<f64> = self.gain.iter().map(|g| -g / largest).collect();
        let b: Vec<f64> = self.rows.iter().map(|(_, b)| *b).collect();
        let settings = DefaultSettingsBuilder::default()
            .verbose(false)
            .tol_gap_rel(1e-11)
            .tol_gap_abs(1e-11)
            .tol_feas(1e-11)
            .build()
            .expect("settings");
        let cones = [NonnegativeConeT(self.rows.len())];
        let mut solver = DefaultSolver::new(&CscMatrix::zeros((n, n)), &cost, &a, &b, &cones, settings)
            .expect("a program");
        solver.solve();
        assert!(matches!(solver.solution.status, SolverStatus::Solved | SolverStatus::AlmostSolved));
        -solver.solution.obj_val * largest
    }
}

fn agree(seed: u64, name: &str, ours: f64, theirs: f64) {
    assert!(
        (ours - theirs).abs() <= 1e-6 * theirs.abs(),
        "seed {seed}, {name}: ours {ours}, Clarabel {theirs}"
    );
}

#[test]
fn a_general_solver_agrees() {
    for seed in 1000..1060 {
        let mut instance = odd(seed);
        let k = instance.types.len();
        let all: f64 = instance.types.iter().map(|t| f64::from(t.count)).sum();
        let ours = |name: &str, instance: &Instance| {
            goal(name).expect("a goal").solve(instance, Options::default()).expect("an answer").objective
        };

        let mut program = Program::new(&instance);
        *program.gain.last_mut().expect("θ") = 1.0;
        for (m, job) in instance.jobs.iter().enumerate() {
            let mean: f64 =
                job.throughputs.iter().zip(&instance.types).map(|(s, t)| s * f64::from(t.count)).sum();
            program.demand(&instance, m, job.weight * mean / all / f64::from(job.gpus), 0.0);
        }
        agree(seed, "max-min", ours("max-min", &instance), program.optimum());

        let mut program = Program::new(&instance);
        *program.gain.last_mut().expect("θ") = 1.0;
        for (m, job) in instance.jobs.iter().enumerate() {
            program.demand(&instance, m, job.steps.expect("steps") / 1e4, 0.0);
        }
        agree(seed, "makespan", ours("makespan", &instance), 1e4 / program.optimum());

        let mut program = Program::new(&instance);
        for (m, job) in instance.jobs.iter().enumerate() {
            (0..k).for_each(|j| program.gain[m * k + j] = job.throughputs[j]);
        }
        agree(seed, "throughput", ours("throughput", &instance), program.optimum());

        // Deadlines that can be kept: twice as long as everyone alone on an equal share would need.
        let n = instance.jobs.len() as f64;
        for job in instance.jobs.iter_mut().filter(|job| job.deadline_s.is_some()) {
            let part = |(t, s): (&warpyard_allocate::GpuType, &f64)| {
                if t.count < job.gpus {
                    0.0
                } else {
                    s * (f64::from(t.count) / n / f64::from(job.gpus)).min(1.0 / k as f64)
                }
            };
            let alone: f64 = instance.types.iter().zip(&job.throughputs).map(part).sum();
            job.deadline_s = Some(2.0 * job.steps.expect("steps") / alone);
        }
        let mut program = Program::new(&instance);
        for (m, job) in instance.jobs.iter().enumerate() {
            for (j, t) in instance.types.iter().enumerate() {
                program.gain[m * k + j] = job.throughputs[j] / t.cost_per_hour.expect("a cost");
            }
            if let Some(left) = job.deadline_s {
                program.demand(&instance, m, 0.0, job.steps.expect("steps") / left);
            }
        }
        agree(seed, "cost", ours("cost", &instance), program.optimum());
    }
}
