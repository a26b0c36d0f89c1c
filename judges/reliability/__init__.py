"""How far a judge can be trusted: calibration on labels, replay with another judge, agreement."""
