//! Planners against published examples and the shared instances, task for task.

mod shared;

use serde_json::Value;
use warpyard_dag::algorithm::{SearchOptions, cpop, find, heft, peft};
use warpyard_dag::{
    Bounds, Edge, Instance, Layered, Links, Schedule, check, optimistic_costs, rank_order, upward_ranks,
};

fn ints(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn textbook(name: &str) -> Option<(Value, Instance)> {
    let data: Value = serde_json::from_str(&shared::text(name)?).unwrap();
    let costs: Vec<f64> = data["comp_cost"].as_array().unwrap().iter().flat_map(ints).collect();
    let index = |v: &Value| v.as_u64().unwrap() as u32 - 1;
    let edges: Vec<Edge> = data["edges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| Edge { from: index(&e["from"]), to: index(&e["to"]), data: e["comm"].as_f64().unwrap() })
        .collect();
    let instance = Instance::new(3, costs, &edges, Links::Uniform).unwrap();
    Some((data, instance))
}

fn assert_textbook(schedule: &Schedule, expected: &Value) {
    for row in expected.as_array().unwrap() {
        let slot = schedule.slots[row["task"].as_u64().unwrap() as usize - 1];
        let found = (u64::from(slot.machine) + 1, slot.start, slot.finish);
        let want =
            (row["proc"].as_u64().unwrap(), row["start"].as_f64().unwrap(), row["finish"].as_f64().unwrap());
        assert_eq!(found, want, "task {}", row["task"]);
    }
}

#[test]
fn heft_plans_the_textbook_examples_as_printed() {
    for (name, makespan) in [("heft_topcuoglu.json", 80.0), ("heft_peft_example.json", 133.0)] {
        let Some((data, instance)) = textbook(name) else { return };
        assert_eq!(upward_ranks(&instance), ints(&data["heft"]["rank_u_times_p"]));
        let schedule = heft(&instance);
        assert_textbook(&schedule, &data["heft"]["schedule"]);
        assert_eq!(schedule.makespan(), makespan);
        assert_eq!(check(&instance, &schedule), Ok(()));
        let optimum = data["optimal"]["makespan"].as_f64().unwrap();
        assert!(Bounds::of(&instance).makespan() <= optimum);
    }
}

#[test]
fn the_generator_and_heft_equal_the_shared_instances_in_every_task() {
    for name in ["r100x8.json", "r100x188.json", "r1000x8.json"] {
        let Some(text) = shared::text(name) else { return };
        let data: Value = serde_json::from_str(&text).unwrap();
        let size = |key: &str| data["params"][key].as_u64().unwrap() as usize;
        let (tasks, machines, seed) = (size("v"), size("p"), size("seed") as u64);
        let instance = Layered { tasks, machines, seed, ..Default::default() }.generate().unwrap();
        let costs: Vec<f64> = data["W"].as_array().unwrap().iter().flat_map(ints).collect();
        assert_eq!(instance.cost_matrix(), costs, "{name}");
        let edges: Vec<Vec<f64>> =
            instance.edges().map(|e| vec![e.from.into(), e.to.into(), e.data]).collect();
        let expected: Vec<Vec<f64>> = data["edges"].as_array().unwrap().iter().map(ints).collect();
        assert_eq!(edges, expected, "{name}");

        let ranks = upward_ranks(&instance);
        assert_eq!(ranks, ints(&data["rank_u_times_p"]), "{name}");
        let order: Vec<f64> = rank_order(&instance, &ranks).into_iter().map(f64::from).collect();
        assert_eq!(order, ints(&data["order_heft"]), "{name}");
        let schedule = heft(&instance);
        assert_eq!(check(&instance, &schedule), Ok(()));
        let column = |of: fn(&warpyard_dag::Slot) -> f64| schedule.slots.iter().map(of).collect::<Vec<_>>();
        assert_eq!(column(|s| s.machine.into()), ints(&data["proc"]), "{name}");
        assert_eq!(column(|s| s.start), ints(&data["start"]), "{name}");
        assert_eq!(column(|s| s.finish), ints(&data["finish"]), "{name}");
        let bounds = Bounds::of(&instance);
        assert!(bounds.critical_path >= data["cp_min"].as_f64().unwrap());
        assert!(bounds.area >= data["area_bound"].as_f64().unwrap() - 1.0);
        assert!(bounds.makespan() <= schedule.makespan());
    }
}

#[test]
fn peft_and_cpop_plan_the_textbook_examples_as_printed() {
    for (name, by_peft, by_cpop) in
        [("heft_topcuoglu.json", 85.0, Some(86.0)), ("heft_peft_example.json", 122.0, None)]
    {
        let Some((data, instance)) = textbook(name) else { return };
        let table: Vec<f64> = data["peft"]["oct"].as_array().unwrap().iter().flat_map(ints).collect();
        assert_eq!(optimistic_costs(&instance), table);
        let schedule = peft(&instance);
        assert_textbook(&schedule, &data["peft"]["schedule"]);
        assert_eq!(schedule.makespan(), by_peft);
        let schedule = cpop(&instance);
        assert_eq!(check(&instance, &schedule), Ok(()));
        if let Some(makespan) = by_cpop {
            assert_eq!(schedule.makespan(), makespan);
        }
    }
}

#[test]
fn peft_equals_the_shared_instances_in_every_task() {
    for name in ["r100x8.json", "r100x188.json", "r1000x8.json"] {
        let Some(text) = shared::text(name) else { return };
        let data: Value = serde_json::from_str(&text).unwrap();
        let size = |key: &str| data["params"][key].as_u64().unwrap() as usize;
        let (tasks, machines, seed) = (size("v"), size("p"), size("seed") as u64);
        let instance = Layered { tasks, machines, seed, ..Default::default() };
        let instance = instance.generate().unwrap();
        let schedule = peft(&instance);
        assert_eq!(check(&instance, &schedule), Ok(()));
        let column = |of: fn(&warpyard_dag::Slot) -> f64| schedule.slots.iter().map(of).collect::<Vec<_>>();
        assert_eq!(column(|s| s.machine.into()), ints(&data["peft"]["proc"]), "{name}");
        assert_eq!(column(|s| s.start), ints(&data["peft"]["start"]), "{name}");
        assert_eq!(schedule.makespan(), data["makespan_peft"].as_f64().unwrap());
    }
}

#[test]
fn the_portfolio_and_the_genetic_search_find_the_proven_optima() {
    for name in ["heft_topcuoglu.json", "heft_peft_example.json"] {
        let Some((data, instance)) = textbook(name) else { return };
        for algorithm in ["best", "genetic"] {
            let plan = find(algorithm).unwrap().plan(&instance, &mut SearchOptions::iterations(30_000));
            assert_eq!(check(&instance, &plan.schedule), Ok(()));
            assert_eq!(
                plan.schedule.makespan(),
                data["optimal"]["makespan"].as_f64().unwrap(),
                "{algorithm}: {name}"
            );
        }
    }
}
